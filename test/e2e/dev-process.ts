// Runs `npm run dev` as a person would, on free ports and in a folder of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const DEV = fileURLToPath(new URL('../../local/dev.ts', import.meta.url));
const FREE_PORTS = Object.fromEntries(
  ['PORT', 'ORIGIN_PORT', 'UPSTASH_PORT', 'NEON_PORT', 'REDIS_PORT', 'POSTGRES_PORT'].map((name) => [
    name,
    '0',
  ]),
);

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export interface DevProcess {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** Resolves to the guide; rejects if the process ends before it. */
  readonly guide: Promise<string>;
  readonly ended: Promise<Ended>;
}

export function runDev(env: Record<string, string>, ...args: string[]): DevProcess {
  const child = spawn(process.execPath, [DEV, ...args], {
    env: { ...process.env, ...FREE_PORTS, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, output }));
  const guide = new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (output.includes('Ctrl-C')) resolve(output);
      });
    }
    ended.then(() => reject(new Error(`npm run dev ended early:\n${output}`)));
  });
  // Tests that expect a failure await only `ended`, so nobody handles this rejection.
  guide.catch(() => {});
  return { child, output: () => output, guide, ended };
}

const DEMO = fileURLToPath(new URL('../../local/demo.ts', import.meta.url));

/** Runs `npm run demo` to its end. */
export async function runDemo(env: Record<string, string>, ...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [DEMO, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const [code] = await once(child, 'close');
  return { code: code as number | null, output };
}

/** The addresses and ports that the guide names. */
export function readGuide(guide: string) {
  const found = (pattern: RegExp) => pattern.exec(guide)?.[1] ?? `nothing like ${pattern} in the guide`;
  return {
    workerUrl: found(/Weir is up at (\S+),/),
    originUrl: found(/in front of (\S+)/),
    adminToken: found(/Bearer (\S+)'/),
    databaseUrl: found(/(postgres:\/\/\S+)/),
    redisPorts: [...guide.matchAll(/(?:us|eu|ap) 127\.0\.0\.1:(\d+)/g)].map((match) => Number(match[1])),
  };
}
