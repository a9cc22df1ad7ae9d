// `npx weir`: works with a running Weir, from a terminal or a pipeline. This is a function; `bin.ts` is the process.
import { parseArgs } from 'node:util';
import { type Command, CommandError } from './command.ts';
import { backup, restore } from './commands/backup.ts';
import { explain } from './commands/explain.ts';
import { keys } from './commands/keys.ts';
import { quota } from './commands/quota.ts';
import { tail, top, why } from './commands/records.ts';
import { rules } from './commands/rules.ts';
import { smoke } from './commands/smoke.ts';
import { renderTable } from './table.ts';
import { createWeirApi } from './weir-api.ts';

const COMMANDS: Readonly<Record<string, Command>> = {
  rules,
  explain,
  keys,
  why,
  top,
  tail,
  quota,
  smoke,
  backup,
  restore,
};
const COMMON = { url: 'URL', token: 'TOKEN', json: undefined, help: undefined };
const LOCAL = 'http://localhost:8787';

const HELP = [
  'npx weir COMMAND [--url URL] [--token TOKEN] [--json]',
  '',
  ...Object.values(COMMANDS).flatMap(({ usage, does }) => [`  ${usage}`, `      ${does}`]),
  '',
  ...renderTable([
    ['  --url URL', `where Weir is; or WEIR_URL, or else ${LOCAL}`],
    ['  --token TOKEN', 'an admin token; or ADMIN_TOKEN, which does not show in the list of processes'],
    ['  --json', 'the result as JSON, and nothing else'],
    ['  --help', 'this text'],
  ]),
  '',
  'Exits with 0; with 1 if something failed; with 2 if `rules diff` has found a difference.',
];

export interface Terminal {
  readonly args: readonly string[];
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
  readonly complain: (line: string) => void;
}

/** Resolves to the exit code of the process. */
export async function runWeir(terminal: Terminal): Promise<number> {
  try {
    return await runCommand(terminal);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    terminal.complain(`weir: ${error.message}`);
    return 1;
  }
}

async function runCommand({ args, variables, print }: Terminal): Promise<number> {
  const [name = '', ...rest] = args;
  if (name === '' || name === '--help' || name === 'help') {
    for (const line of HELP) print(line);
    return name === '' ? 1 : 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) throw new CommandError(`there is no command "${name}": \`npx weir --help\` lists them`);
  const { values, positionals } = parse(rest, command);
  if (values['help'] === true) {
    print(`npx weir ${command.usage}\n    ${command.does}`);
    return 0;
  }
  const isJson = values['json'] === true;
  const [words, place] = name === 'smoke' ? [[], positionals[0]] : [positionals, undefined];
  const url = place ?? values['url'] ?? variables['WEIR_URL'] ?? LOCAL;
  return command.run({
    api: createWeirApi(String(url), (values['token'] as string | undefined) ?? variables['ADMIN_TOKEN']),
    words,
    options: values,
    say: (line) => isJson || print(line),
    report: (result) => isJson && print(JSON.stringify(result)),
  });
}

function parse(args: readonly string[], command: Command) {
  const options = Object.fromEntries(
    Object.entries({ ...COMMON, ...command.options }).map(([name, value]) => [
      name,
      { type: value === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new CommandError(`${(error as Error).message.split('. ')[0]}\nusage: weir ${command.usage}`);
  }
}
