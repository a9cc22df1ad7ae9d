// npm run bench -- NAME [--json]: runs bench/NAME.ts. Progress goes to stderr, tables to stdout.
import { readdirSync, readFileSync } from 'node:fs';
import { findOrInstallRedis } from '../local/redis-server.ts';
import type { Bench } from './shared/bench.ts';
import { renderTable } from './shared/table.ts';

const folder = new URL('./', import.meta.url);
const say = (line: string) => console.error(`· ${line}`);

/** Every file beside this one that exports `run`. */
const benchNames = () =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .filter((file) =>
      /^export (const|async function) run\b/m.test(readFileSync(new URL(file, folder), 'utf8')),
    )
    .map((file) => file.slice(0, -'.ts'.length));

const usage = () => `usage: npm run bench -- NAME [--json]

NAME    ${benchNames().join(', ')}
--json  print one JSON object as the last line`;

async function main(args: readonly string[]): Promise<number> {
  const names = args.filter((arg) => !arg.startsWith('-'));
  const unknown = args.find((arg) => arg.startsWith('-') && !['--json', '--help', '-h'].includes(arg));
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usage());
    return 0;
  }
  const [name = ''] = names;
  const complaint = complaintAbout(names, unknown);
  if (complaint !== undefined) {
    console.error(`${complaint}\n\n${usage()}`);
    return 2;
  }
  await findOrInstallRedis({ say });
  const { run } = (await import(new URL(`${name}.ts`, folder).href)) as { run: Bench };
  const { tables, json } = await run({ say });
  console.log(tables.map(renderTable).join('\n\n'));
  if (args.includes('--json')) console.log(JSON.stringify(json));
  return 0;
}

function complaintAbout(names: readonly string[], unknownOption: string | undefined): string | undefined {
  const [name] = names;
  if (unknownOption !== undefined) return `unknown option ${unknownOption}`;
  if (name === undefined) return 'which bench?';
  if (names.length > 1) return 'one bench at a time, please';
  return benchNames().includes(name) ? undefined : `there is no bench "${name}"`;
}

process.exitCode = await main(process.argv.slice(2));
