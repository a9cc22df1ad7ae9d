// Composes the Lua modules into the one script that Redis runs, and knows its SHA-1.
import fixedWindow from '../../lua/fixed-window.lua';
import take from '../../lua/take.lua';
import type { Algorithm } from '../core/rule.ts';

const MODULES: Readonly<Record<Algorithm, string>> = { 'fixed-window': fixedWindow };

export interface Script {
  readonly text: string;
  /** Of the exact text: Redis knows the script by it. */
  readonly sha: string;
}

export async function composeTakeScript(): Promise<Script> {
  const text = composeText(MODULES, take);
  return { text, sha: await sha1Hex(text) };
}

/** A module becomes a function that is called only when a check needs it: unused algorithms cost nothing. */
function composeText(modules: Readonly<Record<string, string>>, main: string): string {
  const entries = Object.entries(modules).map(([id, body]) => `['${id}'] = function()\n${body}\nend,`);
  // Without this flag Upstash locks the whole database for the run instead of the keys named in KEYS.
  return ['#!lua flags=allow-key-locking', 'local algorithms = {', ...entries, '}', main].join('\n');
}

async function sha1Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
