// npm run bench -- NAME: runs bench/NAME.ts. Progress goes to stderr, tables to stdout.
import { parseArgs } from 'node:util';
import { findOrInstallRedis } from '../local/redis-server.ts';
import { findBenches, loadBench } from './shared/find.ts';
import { runBench } from './shared/run-bench.ts';

const say = (line: string) => console.error(`· ${line}`);

const OPTIONS = {
  json: { type: 'boolean', default: false },
  short: { type: 'boolean', default: false },
  bundle: { type: 'string' },
  database: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

async function usage(): Promise<string> {
  const names = findBenches();
  const width = Math.max(...names.map((name) => name.length));
  const lines = names.map(async (name) => `  ${name.padEnd(width)}  ${(await loadBench(name)).measures}`);
  return `usage: npm run bench -- NAME [--json] [--short]

${(await Promise.all(lines)).join('\n')}

--json           print one JSON object as the last line
--short          show within seconds that the bench runs; its figures mean nothing
--bundle FOLDER  use the Worker that is built there
--database URL   use this Postgres, which should be empty`;
}

async function main(args: readonly string[]): Promise<number> {
  const { values, name, complaint } = parse(args);
  if (values?.help) {
    console.log(await usage());
    return 0;
  }
  if (!values || complaint !== undefined) {
    console.error(`${complaint}\n\n${await usage()}`);
    return 2;
  }
  const { json: wantsJson, short: isShort, bundle, database } = values;
  await findOrInstallRedis({ say });
  const parts = { ...(bundle && { bundle }), ...(database && { databaseUrl: database }) };
  const { text, json } = await runBench(name, { isShort, say, parts });
  console.log(text);
  if (wantsJson) console.log(json);
  return 0;
}

function parse(args: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
    const [name = ''] = positionals;
    return { values, name, complaint: complaintAbout(positionals) };
  } catch (error) {
    return { name: '', complaint: (error as Error).message };
  }
}

function complaintAbout(names: readonly string[]): string | undefined {
  const [name] = names;
  if (name === undefined) return 'which bench?';
  if (names.length > 1) return 'one bench at a time, please';
  return findBenches().includes(name) ? undefined : `there is no bench "${name}"`;
}

process.exitCode = await main(process.argv.slice(2));
