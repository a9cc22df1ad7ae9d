// Finding the caller may take half of the time of a decision. After that the caller is unknown.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  ABSENT,
  type CallerRecord,
  type LookUpResult,
  type TokenVerifier,
} from '../../src/core/ports/callers.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { type Identity, identify } from '../../src/identity/identity.ts';

const FROM = { ip: '192.0.2.1', address: '192.0.2.1' };
const HALF_MS = 125;
const BOTH = { 'X-API-Key': 'k', Authorization: 'Bearer t' };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const never = () => new Promise<never>(() => {});
const after = <T>(ms: number, value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value), ms));

const good: TokenVerifier['verify'] = async () => ({
  kind: 'found',
  record: { userId: 'u', expiresAtMs: Number.MAX_SAFE_INTEGER },
});
const keyFound = { kind: 'found', record: { apiKeyId: 'a' } } as const;

interface Parts {
  readonly ofApiKey?: () => Promise<LookUpResult<CallerRecord>>;
  readonly ofUser?: () => Promise<LookUpResult<CallerRecord>>;
  /** If undefined, no tokens are read. */
  readonly verify?: TokenVerifier['verify'] | undefined;
  readonly remainingMs?: number;
}

/** Starts to identify the caller. `known` holds the identity as soon as Weir has it. */
function start(headers: Record<string, string>, parts: Parts) {
  const { ofApiKey = never, ofUser = never, verify, remainingMs = 2 * HALF_MS } = parts;
  const request = new Request('https://weir.test/', { headers: { 'CF-Connecting-IP': FROM.ip, ...headers } });
  const known: Identity[] = [];
  const identified = identify(readClientRequest(request), {
    callers: { ofApiKey, ofUser },
    tokens: verify && { verify },
    ipv6Prefix: 64,
    afterResponse: () => {},
    deadline: { remainingMs: () => remainingMs },
  });
  return { known, identified: identified.then((identity) => void known.push(identity)) };
}

describe('a credential is unknown after half of the deadline', () => {
  it.each([
    ['the directory', { 'X-API-Key': 'k' }, {}, { caller: FROM, unknown: 'api-key' }],
    ['the issuer', { Authorization: 'Bearer t' }, { verify: never }, { caller: FROM, unknown: 'token' }],
    [
      'the directory of users, whose token names them all the same',
      { Authorization: 'Bearer t' },
      { verify: good },
      { caller: { ...FROM, userId: 'u' }, unknown: 'token' },
    ],
    [
      'the directory, beside a good token, which names its user all the same',
      BOTH,
      { verify: good },
      { caller: { ...FROM, userId: 'u' }, unknown: 'api-key' },
    ],
    [
      'the issuer, although the key is good',
      BOTH,
      { ofApiKey: async () => keyFound, verify: never },
      { caller: { ...FROM, apiKeyId: 'a' }, unknown: 'token' },
    ],
    [
      'the issuer, although the key is known not to be good',
      BOTH,
      { ofApiKey: async () => ABSENT, verify: never },
      { caller: FROM, unverified: 'api-key', unknown: 'token' },
    ],
  ] as const)('if this part never answers: %s', async (_, headers, parts, expected) => {
    const { known } = start(headers, parts);
    await vi.advanceTimersByTimeAsync(HALF_MS - 1);
    expect(known).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(known).toEqual([expected]);
  });

  it('even if the directory answers or fails later', async () => {
    const late = after(1_000, undefined).then(() => Promise.reject(new Error('down')));
    const { known, identified } = start({ 'X-API-Key': 'k' }, { ofApiKey: () => late });
    await vi.advanceTimersByTimeAsync(2_000);
    await identified;
    expect(known).toEqual([{ caller: FROM, unknown: 'api-key' }]);
  });
});

describe('a caller is known', () => {
  it('if the answer comes a millisecond before half of the deadline, and no timer is left', async () => {
    const { known } = start({ 'X-API-Key': 'k' }, { ofApiKey: () => after(HALF_MS - 1, keyFound) });
    await vi.advanceTimersByTimeAsync(HALF_MS - 1);
    expect(known).toEqual([{ caller: { ...FROM, apiKeyId: 'a' } }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('from memory even when no time is left', async () => {
    const { known } = start({ 'X-API-Key': 'k' }, { ofApiKey: async () => keyFound, remainingMs: 0 });
    await vi.advanceTimersByTimeAsync(0);
    expect(known).toEqual([{ caller: { ...FROM, apiKeyId: 'a' } }]);
  });
});

describe('no timer is started', () => {
  it.each([
    ['without key and token', {}, { verify: never }],
    ['for what is no bearer token', { Authorization: 'Basic YTpi' }, { verify: never }],
    ['for a token where none are read', { Authorization: 'Bearer t' }, {}],
  ])('%s', async (_, headers: Record<string, string>, parts) => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const { known, identified } = start(headers, parts);
    await identified;
    expect(known).toEqual([{ caller: FROM }]);
    expect(timers).not.toHaveBeenCalled();
  });
});
