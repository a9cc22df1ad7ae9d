// Finds the slot of a Redis Cluster that a command belongs to.
import type { RedisCommand } from './redis-link.ts';

const SLOTS = 16_384;
const POLYNOMIAL = 0x1021;

/** CRC16 (XMODEM) of the hash tag of a key, or of the whole key. */
export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  const hashed = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}

/** The first key of the command. Undefined if it has none. */
export function keyOf([name, ...args]: RedisCommand): string | undefined {
  const upper = name.toUpperCase();
  if (/^(EVAL|EVALSHA)(_RO)?$/.test(upper)) return Number(args[1]) > 0 ? String(args[2]) : undefined;
  if (['SCRIPT', 'INFO', 'COMMAND', 'PING', 'TIME'].includes(upper)) return undefined;
  return args[0] === undefined ? undefined : String(args[0]);
}
