// Runs wrangler from the PATH of the npm script. Secrets go through its standard input, so they are in no file and in
// no list of processes.
import { type ChildProcess, spawn } from 'node:child_process';
import { StackError } from '../ports.ts';

/** Without a log-in, setting the secrets would fail after the file was written. */
export async function expectLogIn(): Promise<void> {
  const code = await exitCodeOf(spawn('wrangler', ['whoami', '--json'], { stdio: 'ignore' }));
  if (code === 0) return;
  throw new StackError(
    code === undefined
      ? NOT_FOUND
      : 'nothing was changed, because wrangler is not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN',
  );
}

export async function putSecrets(
  secrets: Readonly<Record<string, string>>,
  environment: string | undefined,
): Promise<void> {
  const args = ['secret', 'bulk', ...(environment === undefined ? [] : ['--env', environment])];
  const child = spawn('wrangler', args, { stdio: ['pipe', 'inherit', 'inherit'] });
  child.stdin.on('error', () => {});
  child.stdin.end(JSON.stringify(secrets));
  const code = await exitCodeOf(child);
  if (code !== 0)
    throw new StackError(
      code === undefined ? NOT_FOUND : `wrangler ended with ${code}: is \`npx wrangler login\` done?`,
    );
}

const NOT_FOUND = 'wrangler could not be run: use `npm run setup`';

/** Undefined if the program could not be run. */
const exitCodeOf = (child: ChildProcess) =>
  new Promise<number | undefined>((resolve) => {
    child.on('error', () => resolve(undefined));
    child.on('exit', (code) => resolve(code ?? undefined));
  });
