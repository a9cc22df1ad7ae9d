// Runs wrangler from the PATH of the npm script. Secrets go through its standard input, so they are in no file and in
// no list of processes.
import { spawn } from 'node:child_process';
import { StackError } from '../ports.ts';

export async function putSecrets(
  secrets: Readonly<Record<string, string>>,
  environment: string | undefined,
): Promise<void> {
  const args = ['secret', 'bulk', ...(environment === undefined ? [] : ['--env', environment])];
  const child = spawn('wrangler', args, { stdio: ['pipe', 'inherit', 'inherit'] });
  child.stdin.on('error', () => {});
  child.stdin.end(JSON.stringify(secrets));
  const code = await new Promise<number | undefined>((resolve) => {
    child.on('error', () => resolve(undefined));
    child.on('exit', (exitCode) => resolve(exitCode ?? undefined));
  });
  if (code !== 0)
    throw new StackError(
      code === undefined
        ? 'wrangler could not be run: use `npm run setup`'
        : `wrangler ended with ${code}: is \`npx wrangler login\` done?`,
    );
}
