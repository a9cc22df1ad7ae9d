// The id of the charges of a check. The id contains the charges themselves, signed. A service sends the id to give the
// charges back, so Weir need not store them.
import type { Check } from '../core/counting/check.ts';
import {
  createSigner,
  digest,
  isSameText,
  partsOfSigned,
  randomId,
  textFromBase64,
  textToBase64Url,
  toBase64Url,
} from '../core/digest.ts';
import type { CallerIds } from '../core/matching/caller.ts';

/** Whose usage a charge is, and of which rule. */
export interface ChargeUsage extends CallerIds {
  readonly ruleId: string;
  /** Charges of one call with the same number are of the same subject. */
  readonly subject: number;
}

/** A check that a region has charged. */
export interface RegionCharge {
  readonly region: string;
  /** Undefined: it is not recorded as usage. */
  readonly usage?: ChargeUsage | undefined;
  readonly check: Check & { readonly chargedAtMs: number };
}

/** 128 bits of the signature. */
const SIGNATURE_BYTES = 16;

export function createChargeIds(secret: string) {
  const signAll = createSigner(secret);
  const sign = async (payload: string) =>
    toBase64Url((await signAll(`weir check ${payload}`)).slice(0, SIGNATURE_BYTES));

  return {
    async write(charges: readonly RegionCharge[]): Promise<string> {
      // A random part, because two checks can charge the same at the same moment, and each has its own refund.
      const payload = textToBase64Url(JSON.stringify([randomId(), ...charges.map(toValues)]));
      return `${payload}.${await sign(payload)}`;
    },
    /**
     * Undefined if this text is not exactly an id that was signed with this secret. The id is spent under `name`, which
     * comes from what was signed, not from the text that somebody sent.
     */
    async read(id: string) {
      const parts = partsOfSigned(id);
      if (!parts) return undefined;
      const [payload, given] = parts;
      const signature = await sign(payload);
      if (!isSameText(signature, given)) return undefined;
      const signed: readonly (string | ChargeValues)[] = JSON.parse(textFromBase64(payload));
      return {
        name: toBase64Url(await digest('SHA-256', `${payload}.${signature}`)),
        // Ids of the version before have no random part.
        charges: signed.filter((one) => typeof one !== 'string').map(toCharge),
      };
    },
  };
}

// An id has the values alone, in this order. New fields come last, because ids live on when Weir is deployed.

const CHECK_FIELDS = [
  'key',
  'id',
  'algorithm',
  'limit',
  'windowMs',
  'cost',
  'chargedAtMs',
  'extra',
  'seatId',
  'borders',
] as const;
const USAGE_FIELDS = ['ruleId', 'tenantId', 'userId', 'apiKeyId', 'subject'] as const;

type ChargeValues = [region: string, ...check: unknown[]];

const toValues = ({ region, check, usage }: RegionCharge): ChargeValues => [
  region,
  ...valuesOf(CHECK_FIELDS, check),
  usage ? valuesOf(USAGE_FIELDS, usage) : null,
];

function toCharge([region, ...values]: ChargeValues): RegionCharge {
  const usage = values[CHECK_FIELDS.length];
  return {
    region,
    usage: Array.isArray(usage) ? fromValues<ChargeUsage>(USAGE_FIELDS, usage) : undefined,
    check: fromValues(CHECK_FIELDS, values),
  };
}

const valuesOf = <T>(fields: readonly (keyof T)[], of: T): unknown[] =>
  fields.map((field) => of[field] ?? null);

const fromValues = <T>(fields: readonly (keyof T)[], values: readonly unknown[]): T =>
  Object.fromEntries(fields.map((field, i) => [field, values[i] ?? undefined])) as T;
