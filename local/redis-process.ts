// One redis-server process that writes nothing to disk and ends with this process, however that ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LOOPBACK, StackError } from './ports.ts';
import { startWatchdog } from './watchdog.ts';

const START_TIMEOUT_MS = 60_000;

export interface RedisProcessOptions {
  readonly binary: string;
  readonly name: string;
  readonly port: number;
  readonly extraArgs: readonly string[];
}

export interface RedisProcess {
  readonly pid: number;
  isAlive(): boolean;
  signal(signal: NodeJS.Signals): void;
  /** Kills the process. Resolves when it is gone. */
  end(): Promise<void>;
}

/** Another program has the port. */
export class PortLost extends StackError {}

/** Resolves when Redis answers. */
export async function startRedisProcess(options: RedisProcessOptions): Promise<RedisProcess> {
  const { binary, name, port, extraArgs } = options;
  // Redis loads a dump.rdb from its folder even with saving off, so it gets its own folder.
  const dir = mkdtempSync(join(tmpdir(), 'weir-redis-'));
  const network = ['--port', String(port), '--bind', LOOPBACK];
  // Redis does its chores once a second instead of ten times. Otherwise dozens of idle servers would keep the machine
  // busy.
  const quiet = ['--save', '', '--appendonly', 'no', '--hz', '1'];
  const args = [...network, ...quiet, '--dir', dir, ...extraArgs];
  // Detached, so that Ctrl-C in the terminal reaches only this process, which ends everything in order.
  const child = spawn(binary, args, { cwd: dir, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const lastLine = followOutput(child);
  const ended = new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
  const release = endWithParent(child, dir);
  void ended.then(release);
  const isAlive = () => child.exitCode === null && child.signalCode === null;
  const end = async () => {
    if (isAlive()) child.kill('SIGKILL');
    await ended;
  };
  try {
    await untilReady(child, port);
  } catch (error) {
    await end();
    throw explain(error, { name, port, lastLine: lastLine() });
  }
  return { pid: child.pid as number, isAlive, signal: (signal) => void child.kill(signal), end };
}

/** Returns the last output, for the error message. */
export function followOutput(child: ChildProcess): () => string {
  let tail = '';
  const keep = (chunk: Buffer) => {
    tail = (tail + chunk.toString()).slice(-2_000);
  };
  child.on('error', (error) => keep(Buffer.from(error.message)));
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => tail.trimEnd().split('\n').at(-1)?.trim() || 'it said nothing';
}

/**
 * Ends Redis and removes its folder when this process ends, even if it is killed. Returns a function that undoes this.
 */
function endWithParent(child: ChildProcess, dir: string): () => void {
  const removeDir = () => rmSync(dir, { recursive: true, force: true });
  const onExit = () => {
    child.kill('SIGKILL');
    removeDir();
  };
  process.once('exit', onExit);
  const watchdog =
    child.pid === undefined ? undefined : startWatchdog('kill -9 "$1"; rm -rf "$2"', String(child.pid), dir);
  return () => {
    process.off('exit', onExit);
    watchdog?.kill('SIGKILL');
    removeDir();
  };
}

async function untilReady(child: ChildProcess, port: number): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
      throw new Error('died');
    if (await answers(port, child.pid)) return;
    await sleep(10);
  }
  throw new Error('does not answer');
}

/** Asks for the process id, because another Redis on the same port would answer PING, too. */
function answers(port: number, pid: number): Promise<boolean> {
  return new Promise((resolve) => {
    let reply = '';
    const socket = connect({ port, host: LOOPBACK, timeout: 1_000 }, () => socket.write('INFO server\r\n'));
    socket.on('data', (chunk) => {
      reply += chunk.toString();
      if (reply.startsWith('-NOAUTH') || reply.includes(`process_id:${pid}\r`)) socket.destroy();
    });
    socket.on('timeout', () => socket.destroy());
    socket.on('error', () => {});
    socket.on('close', () => resolve(reply.startsWith('-NOAUTH') || reply.includes(`process_id:${pid}\r`)));
  });
}

function explain(error: unknown, at: { name: string; port: number; lastLine: string }): StackError {
  const { name, port, lastLine } = at;
  // Redis says "Address already in use", and in its last line that it gives up listening.
  if (/in use|Failed listening/.test(lastLine)) return new PortLost(`port ${port} (Redis ${name}) is taken`);
  const what = error instanceof Error ? error.message : String(error);
  return new StackError(`Redis ${name} (port ${port}) ${what}; its last words: ${lastLine}`);
}
