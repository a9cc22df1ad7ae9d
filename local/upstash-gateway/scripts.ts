// Runs scripts with Upstash's `allow-key-locking` flag on a Redis that does not know it. It rewrites the text on its
// way in, while callers keep using the SHA of their own text. Errors come back in Upstash's words. Only Redis knows
// which scripts are loaded, so NOSCRIPT comes through.
import { createHash } from 'node:crypto';
import type { RedisCommand, Reply } from './redis-link.ts';
import { asUpstashSays } from './script-errors.ts';

const FLAG = 'allow-key-locking';

/** Makes the code in front of a script, on one line, or '' for none. */
export type Prelude = (script: string) => string;

export interface Translated {
  command: RedisCommand;
  /** What Upstash would have answered instead of this reply of Redis. */
  restore(reply: Reply): Reply;
}

export interface Scripts {
  translate(command: RedisCommand): Translated;
  /** Whether the script of an EVAL or EVALSHA has the flag. */
  hasKeyLocking(command: RedisCommand): boolean;
}

interface Rewritten {
  text: string;
  sha: string;
  originalSha: string;
}

const unchanged = (reply: Reply) => reply;

/** For a server that runs scripts as Upstash does. */
export const UNTOUCHED: Scripts = {
  translate: (command) => ({ command, restore: unchanged }),
  // The server behind it locks by itself.
  hasKeyLocking: () => true,
};

export function createScripts(prelude: Prelude): Scripts {
  const byText = new Map<string, Rewritten>();
  const bySha = new Map<string, Rewritten>();

  const rewritten = (text: string): Rewritten | undefined => {
    const known = byText.get(text);
    if (known !== undefined) return known;
    const changed = rewriteScript(text, prelude);
    if (changed === undefined) return undefined;
    const entry = { text: changed, sha: sha1(changed), originalSha: sha1(text) };
    byText.set(text, entry);
    bySha.set(entry.originalSha, entry);
    return entry;
  };

  const evaluate = (command: RedisCommand, replacement: string | undefined): Translated => {
    const [name, , ...rest] = command;
    return {
      command: replacement === undefined ? command : [name, replacement, ...rest],
      restore: inUpstashWords,
    };
  };

  const translate = (command: RedisCommand): Translated => {
    const [name, first = '', second = ''] = command;
    switch (name.toUpperCase()) {
      case 'EVAL':
      case 'EVAL_RO':
        return evaluate(command, rewritten(String(first))?.text);
      case 'EVALSHA':
      case 'EVALSHA_RO':
        return evaluate(command, bySha.get(String(first).toLowerCase())?.sha);
      case 'SCRIPT':
        return translateScript(command, String(first).toUpperCase(), rewritten(String(second)));
      default:
        return { command, restore: unchanged };
    }
  };

  const translateScript = (command: RedisCommand, verb: string, entry: Rewritten | undefined): Translated => {
    const [name, first = '', ...rest] = command;
    if (verb === 'EXISTS') {
      const shas = rest.map((sha) => bySha.get(String(sha).toLowerCase())?.sha ?? sha);
      return { command: [name, first, ...shas], restore: unchanged };
    }
    if (verb !== 'LOAD' || entry === undefined) return { command, restore: inUpstashWords };
    const restore = (reply: Reply) =>
      reply instanceof Buffer ? Buffer.from(entry.originalSha) : inUpstashWords(reply);
    return { command: [name, first, entry.text, ...rest.slice(1)], restore };
  };

  const hasKeyLocking = ([name, first = '']: RedisCommand) =>
    /^EVALSHA/i.test(name) ? bySha.has(String(first).toLowerCase()) : rewritten(String(first)) !== undefined;

  return { translate, hasKeyLocking };
}

function inUpstashWords(reply: Reply): Reply {
  return reply instanceof Error ? new Error(asUpstashSays(reply.message)) : reply;
}

/** The text for stock Redis, line for line. Undefined for a script without the flag. */
export function rewriteScript(script: string, prelude: Prelude): string | undefined {
  const [, shebang = ''] = /^#!lua[ \t]+([^\n]*)/.exec(script) ?? [];
  const words = shebang.trim().split(/\s+/);
  const flags =
    words
      .find((word) => word.startsWith('flags='))
      ?.slice('flags='.length)
      .split(',') ?? [];
  if (!flags.includes(FLAG)) return undefined;
  const body = script.includes('\n') ? script.slice(script.indexOf('\n') + 1) : '';
  const others = flags.filter((flag) => flag !== FLAG && flag !== '');
  // If no other flag is left, the gateway removes the whole line. Redis 6 needs this, too: it knows no such line.
  if (others.length === 0) return `${prelude(script)}\n${body}`;
  return `#!lua flags=${others.join(',')}\n${prelude(script)} ${body}`;
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
