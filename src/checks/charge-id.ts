// The id of the charges of a check. The id contains the charges themselves, signed. A service sends the id to give the
// charges back, so Weir need not store them.
import type { Borders } from '../core/counting/calendar.ts';
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

/** Whose usage a charge is, and of which rule. */
export interface ChargeUsage {
  readonly ruleId: string;
  readonly tenantId: string;
  readonly userId: string;
  readonly apiKeyId: string;
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

export interface ReadId {
  /** The name under which the id is spent. It comes from what was signed, not from the text that somebody sent. */
  readonly name: string;
  readonly charges: readonly RegionCharge[];
}

export interface ChargeIds {
  write(charges: readonly RegionCharge[]): Promise<string>;
  /** Undefined if this text is not exactly an id that was signed with this secret. */
  read(id: string): Promise<ReadId | undefined>;
}

/** 128 bits of the signature. */
const SIGNATURE_BYTES = 16;

export function createChargeIds(secret: string): ChargeIds {
  const signAll = createSigner(secret);
  const sign = async (payload: string) =>
    toBase64Url((await signAll(`weir check ${payload}`)).slice(0, SIGNATURE_BYTES));

  return {
    async write(charges) {
      // A random part, because two checks can charge the same at the same moment, and each has its own refund.
      const payload = textToBase64Url(JSON.stringify([randomId(), ...charges.map(toFields)]));
      return `${payload}.${await sign(payload)}`;
    },
    async read(id) {
      const parts = partsOfSigned(id);
      if (!parts) return undefined;
      const [payload, given] = parts;
      const signature = await sign(payload);
      if (!isSameText(signature, given)) return undefined;
      const signed: readonly (string | Fields)[] = JSON.parse(textFromBase64(payload));
      return {
        name: toBase64Url(await digest('SHA-256', `${payload}.${signature}`)),
        // Ids of the version before have no random part.
        charges: signed.filter((one) => typeof one !== 'string').map(toCharge),
      };
    },
  };
}

type Fields = [
  region: string,
  key: string,
  id: string,
  algorithm: Check['algorithm'],
  limit: number,
  windowMs: number,
  cost: number,
  chargedAtMs: number,
  extra: number | null,
  seatId: string | null,
  borders?: Borders | null,
  usage?:
    | readonly [ruleId: string, tenantId: string, userId: string, apiKeyId: string, subject: number]
    | null,
];

const toFields = ({ region, check, usage }: RegionCharge): Fields => [
  region,
  check.key,
  check.id,
  check.algorithm,
  check.limit,
  check.windowMs,
  check.cost,
  check.chargedAtMs,
  check.extra ?? null,
  check.seatId ?? null,
  check.borders ?? null,
  usage ? [usage.ruleId, usage.tenantId, usage.userId, usage.apiKeyId, usage.subject] : null,
];

const toCharge = ([
  region,
  key,
  id,
  algorithm,
  limit,
  windowMs,
  cost,
  chargedAtMs,
  extra,
  seatId,
  borders,
  usage,
]: Fields): RegionCharge => ({
  region,
  usage: usage
    ? {
        ruleId: usage[0],
        tenantId: usage[1],
        userId: usage[2],
        apiKeyId: usage[3],
        subject: usage[4],
      }
    : undefined,
  check: {
    key,
    id,
    algorithm,
    limit,
    windowMs,
    cost,
    chargedAtMs,
    extra: extra ?? undefined,
    seatId: seatId ?? undefined,
    borders: borders ?? undefined,
  },
});
