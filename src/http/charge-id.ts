// The id of what a check has charged. It holds the charges themselves, signed: whoever has it can give them back, and
// nothing has to be kept for the many that nobody does.
import type { Borders } from '../core/counting/calendar.ts';
import type { Check } from '../core/counting/check.ts';
import { toBase64Url } from '../core/digest.ts';

/** A check that a region has charged. */
export interface RegionCharge {
  readonly region: string;
  readonly check: Check & { readonly chargedAtMs: number };
}

export interface ChargeIds {
  write(charges: readonly RegionCharge[]): Promise<string>;
  /** Undefined if it is none that was written with this secret. */
  read(id: string): Promise<readonly RegionCharge[] | undefined>;
}

const HMAC = { name: 'HMAC', hash: 'SHA-256' };
/** 128 bits of the signature. */
const SIGNATURE_BYTES = 16;

export function createChargeIds(secret: string): ChargeIds {
  const sign = async (payload: string) => {
    const bytes = new TextEncoder();
    const key = await crypto.subtle.importKey('raw', bytes.encode(secret), HMAC, false, ['sign']);
    const signature = await crypto.subtle.sign('HMAC', key, bytes.encode(`weir check ${payload}`));
    return toBase64Url(new Uint8Array(signature).slice(0, SIGNATURE_BYTES));
  };

  return {
    async write(charges) {
      const payload = toBase64Url(new TextEncoder().encode(JSON.stringify(charges.map(toFields))));
      return `${payload}.${await sign(payload)}`;
    },
    async read(id) {
      const [payload = '', signature = ''] = id.split('.');
      if (!isSame(await sign(payload), signature)) return undefined;
      const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (one) =>
        one.charCodeAt(0),
      );
      return (JSON.parse(new TextDecoder().decode(bytes)) as Fields[]).map(toCharge);
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
  leaseId: string | null,
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
  check.leaseId ?? null,
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
  leaseId,
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
    leaseId: leaseId ?? undefined,
    borders: borders ?? undefined,
  },
});

/** In a time that does not tell how much of it is right. */
function isSame(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i += 1) difference |= a.charCodeAt(i) ^ (b.charCodeAt(i) || 0);
  return difference === 0;
}
