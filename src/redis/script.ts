// Composes the Lua modules into the one script that Redis runs, and knows its SHA-1.
import concurrency from '../../lua/concurrency.lua';
import counters from '../../lua/counters.lua';
import fixedWindow from '../../lua/fixed-window.lua';
import gcra from '../../lua/gcra.lua';
import leakyBucket from '../../lua/leaky-bucket.lua';
import refusal from '../../lua/refusal.lua';
import slidingWindowBuckets from '../../lua/sliding-window-buckets.lua';
import slidingWindowCounter from '../../lua/sliding-window-counter.lua';
import slidingWindowLog from '../../lua/sliding-window-log.lua';
import tokenBucket from '../../lua/token-bucket.lua';
import type { AlgorithmId } from '../core/algorithms/registry.ts';

const MODULES: Readonly<Record<AlgorithmId, string>> = {
  'fixed-window': fixedWindow,
  'sliding-window-log': slidingWindowLog,
  'sliding-window-counter': slidingWindowCounter,
  'sliding-window-buckets': slidingWindowBuckets,
  'token-bucket': tokenBucket,
  'leaky-bucket': leakyBucket,
  gcra,
  concurrency,
};

/** Without this flag Upstash locks the whole database for the run instead of the keys named in KEYS. */
const FLAG = '#!lua flags=allow-key-locking';

export interface Script {
  readonly text: string;
  /** Of the exact text: Redis knows the script by it. */
  readonly sha: string;
}

export async function composeScript(): Promise<Script> {
  const text = composeText();
  return { text, sha: await sha1Hex(text) };
}

/** `load` makes a part when it is needed: what is not used costs nothing. */
function composeText(): string {
  const parts = Object.entries({ ...MODULES, refusal });
  const branches = parts.map(([id, body]) => `if id == '${id}' then\n${body}\nend`);
  // Declared first, because a part may load another.
  return [FLAG, 'local load', 'load = function(id)', ...branches, 'end', counters].join('\n');
}

async function sha1Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
