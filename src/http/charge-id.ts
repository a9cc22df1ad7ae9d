// The id of the charges of a check. The id contains the charges themselves, signed. A service sends the id to give the
// charges back, so Weir need not store them.
import type { Borders } from '../core/counting/calendar.ts';
import type { Check } from '../core/counting/check.ts';
import { createSigner, isSameText, textFromBase64, textToBase64Url, toBase64Url } from '../core/digest.ts';

/** A check that a region has charged. */
export interface RegionCharge {
  readonly region: string;
  readonly check: Check & { readonly chargedAtMs: number };
}

export interface ChargeIds {
  write(charges: readonly RegionCharge[]): Promise<string>;
  /** Undefined if the id was not signed with this secret. */
  read(id: string): Promise<readonly RegionCharge[] | undefined>;
}

/** 128 bits of the signature. */
const SIGNATURE_BYTES = 16;

export function createChargeIds(secret: string): ChargeIds {
  const signAll = createSigner(secret);
  const sign = async (payload: string) =>
    toBase64Url((await signAll(`weir check ${payload}`)).slice(0, SIGNATURE_BYTES));

  return {
    async write(charges) {
      const payload = textToBase64Url(JSON.stringify(charges.map(toFields)));
      return `${payload}.${await sign(payload)}`;
    },
    async read(id) {
      const [payload = '', signature = ''] = id.split('.');
      if (!isSameText(await sign(payload), signature)) return undefined;
      return (JSON.parse(textFromBase64(payload)) as Fields[]).map(toCharge);
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
];

const toFields = ({ region, check }: RegionCharge): Fields => [
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
]: Fields) => ({
  region,
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
