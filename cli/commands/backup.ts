// `weir backup` and `weir restore`: everything but secrets, in one file.
import { writeFile } from 'node:fs/promises';
import { type Command, type CommandContext, CommandError } from '../command.ts';
import { readDocument } from './rules.ts';

/** An import may take 10 MiB, and a key takes about 300 bytes. */
const ENTRIES_AT_ONCE = 10_000;
/** In this order, because each kind may refer to those before it. */
const PEOPLE = ['tenants', 'users', 'keys', 'lists'] as const;

export const backup: Command = {
  usage: 'backup FILE',
  does: 'writes rules, tiers, routes, tenants, users, lists, and the hashes of keys',
  options: {},
  async run({ api, words: [file], say, report }) {
    if (file === undefined) throw new CommandError(`usage: weir ${backup.usage}`);
    const text = await api.adminText('/export?everything=true');
    const document = JSON.parse(text) as Record<string, unknown>;
    // Nobody else may read the hashes of keys.
    await writeFile(file, text, { mode: 0o600 });
    const counts = countsOf(document);
    report({ file, ...counts });
    say(`wrote ${file}: ${wordsOf(counts)}`);
    return 0;
  },
};

export const restore: Command = {
  usage: 'restore FILE',
  does: 'restores a backup; items that the file does not name stay',
  options: {},
  async run(context) {
    const [file] = context.words;
    if (file === undefined) throw new CommandError(`usage: weir ${restore.usage}`);
    const document = await readDocument(file);
    for (const part of inPieces(document)) await context.api.admin('POST', '/import', part);
    tell(context, document);
    return 0;
  },
};

/** Rules first, then callers, in pieces that are small enough for one import each. */
export function* inPieces(document: Readonly<Record<string, unknown>>): Generator<object> {
  const { weir, tiers, rules, routes } = document;
  yield { weir, tiers, rules, routes };
  for (const kind of PEOPLE) {
    const entries = (document[kind] ?? []) as readonly unknown[];
    for (let at = 0; at < entries.length; at += ENTRIES_AT_ONCE)
      yield { weir, [kind]: entries.slice(at, at + ENTRIES_AT_ONCE) };
  }
}

function tell({ say, report }: CommandContext, document: Readonly<Record<string, unknown>>): void {
  const counts = countsOf(document);
  report({ restored: counts });
  say(`restored ${wordsOf(counts)}`);
}

const countsOf = (document: Readonly<Record<string, unknown>>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(document).flatMap(([name, list]) => (Array.isArray(list) ? [[name, list.length]] : [])),
  );

const wordsOf = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
