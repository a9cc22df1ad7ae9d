// A real redis-server for the local stack: finds it (or installs it without asking) and runs it without a trace on disk.
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertPortFree, freePort, LOOPBACK, StackError } from './ports.ts';
import { startWatchdog } from './watchdog.ts';

const INSTALL_TIMEOUT_MS = 300_000;
const START_TIMEOUT_MS = 15_000;
const INSTALL_HINT =
  'install Redis 7 ("apt-get install redis-server" or "brew install redis") and run this again';

export interface FindRedisOptions {
  say(line: string): void;
  env?: NodeJS.ProcessEnv;
  platform?: NodeJS.Platform;
  uid?: number | undefined;
}

export interface RedisServerOptions {
  port: number;
  name: string;
  extraArgs?: string[];
  binary?: string;
}

export interface RedisServer {
  name: string;
  port: number;
  url: string;
  pid: number;
  /** Stops the process from answering, as a host does that swaps or a network that drops packets. */
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}

/** The path of redis-server; installs it, after one line through `say`, where that needs no answer from anyone. */
export async function findOrInstallRedis(options: FindRedisOptions): Promise<string> {
  const { say, env = process.env, platform = process.platform, uid = process.getuid?.() } = options;
  const found = findBinary('redis-server', env, platform);
  if (found !== undefined) return found;
  const steps = await installSteps(env, platform, uid);
  if (steps === undefined) throw new StackError(`redis-server is not installed: ${INSTALL_HINT}`);
  say(`redis-server is not installed: installing it with ${steps.tool} (takes some seconds)`);
  const trouble = await install(steps, env);
  const installed = findBinary('redis-server', env, platform);
  if (installed !== undefined) return installed;
  throw new StackError(`${steps.tool} could not install redis-server (${trouble}): ${INSTALL_HINT}`);
}

function findBinary(name: string, env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string | undefined {
  // Homebrew's folder is often missing from the PATH of a shell that was open before it was installed.
  const extra = platform === 'darwin' ? ['/opt/homebrew/bin', '/usr/local/bin'] : [];
  const folders = [...(env.PATH ?? '').split(delimiter).filter(Boolean), ...extra];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

interface InstallSteps {
  tool: string;
  install: string[];
  /** Run only when `install` failed; then `install` is tried again. */
  refresh?: string[];
}

async function installSteps(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
  uid: number | undefined,
): Promise<InstallSteps | undefined> {
  const brew = findBinary('brew', env, platform);
  const apt = findBinary('apt-get', env, platform);
  if (platform === 'darwin' && brew !== undefined) {
    const quiet = ['/usr/bin/env', 'HOMEBREW_NO_AUTO_UPDATE=1', 'NONINTERACTIVE=1'];
    return { tool: 'brew', install: [...quiet, brew, 'install', 'redis'] };
  }
  if (apt === undefined) return undefined;
  const sudo = uid === 0 ? [] : await passwordlessSudo(env, platform);
  if (sudo === undefined) return undefined;
  // The package starts a system service. These two tell invoke-rc.d and systemctl not to, and leave nothing behind.
  const noService = ['RUNLEVEL=1', 'SYSTEMD_OFFLINE=1'];
  const quiet = [...sudo, '/usr/bin/env', 'DEBIAN_FRONTEND=noninteractive', ...noService];
  const options = ['-y', '-q', '-o', 'DPkg::Lock::Timeout=120'];
  return {
    tool: 'apt-get',
    install: [...quiet, apt, 'install', ...options, '--no-install-recommends', 'redis-server'],
    refresh: [...quiet, apt, 'update', ...options],
  };
}

async function passwordlessSudo(env: NodeJS.ProcessEnv, platform: NodeJS.Platform) {
  const sudo = findBinary('sudo', env, platform);
  if (sudo === undefined) return undefined;
  const { code } = await run([sudo, '-n', 'true'], env);
  return code === 0 ? [sudo, '-n'] : undefined;
}

/** Resolves to the last thing the installer said, for the error message should redis-server still be missing. */
async function install(steps: InstallSteps, env: NodeJS.ProcessEnv): Promise<string> {
  let result = await run(steps.install, env);
  if (result.code !== 0 && steps.refresh !== undefined) {
    await run(steps.refresh, env);
    result = await run(steps.install, env);
  }
  return result.lastLine;
}

function run(command: string[], env: NodeJS.ProcessEnv): Promise<{ code: number | null; lastLine: string }> {
  const [program = '', ...args] = command;
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    });
    const lastLine = followOutput(child);
    child.on('error', () => resolve({ code: null, lastLine: lastLine() }));
    child.on('close', (code) => resolve({ code, lastLine: lastLine() }));
  });
}

function followOutput(child: ChildProcess): () => string {
  let tail = '';
  const keep = (chunk: Buffer) => {
    tail = (tail + chunk.toString()).slice(-2_000);
  };
  child.on('error', (error) => keep(Buffer.from(error.message)));
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => tail.trimEnd().split('\n').at(-1)?.trim() || 'it said nothing';
}

/** Starts a redis-server that keeps nothing on disk; port 0 picks a free one. */
export async function startRedisServer(options: RedisServerOptions): Promise<RedisServer> {
  if (options.port !== 0) {
    await assertPortFree(options.port, `Redis ${options.name}`);
    return launch(options, options.port);
  }
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(options, await freePort());
    } catch (error) {
      // Between finding a free port and Redis opening it, somebody else may have taken it.
      if (attempt === 5 || !(error instanceof PortLost)) throw error;
    }
  }
}

class PortLost extends StackError {}

async function launch(options: RedisServerOptions, port: number): Promise<RedisServer> {
  const { name, extraArgs = [] } = options;
  const binary = options.binary ?? findBinary('redis-server', process.env, process.platform);
  if (binary === undefined) throw new StackError(`redis-server is not installed: ${INSTALL_HINT}`);
  // Redis loads a dump.rdb it finds in its folder even with saving off, hence a folder of its own.
  const dir = mkdtempSync(join(tmpdir(), 'weir-redis-'));
  const network = ['--port', String(port), '--bind', LOOPBACK];
  const args = [...network, '--save', '', '--appendonly', 'no', '--dir', dir, ...extraArgs];
  // Detached: Ctrl-C in the terminal reaches only us, so that we can end things in order.
  const child = spawn(binary, args, { cwd: dir, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const lastLine = followOutput(child);
  const ended = new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
  const release = endWithParent(child, dir);
  void ended.then(release);
  const stop = async () => {
    if (child.exitCode === null) child.kill('SIGKILL');
    await ended;
  };
  try {
    await untilReady(child, port);
  } catch (error) {
    await stop();
    throw explain(error, { name, port, lastLine: lastLine() });
  }
  const pid = child.pid as number;
  const freeze = () => void child.kill('SIGSTOP');
  const thaw = () => void child.kill('SIGCONT');
  return { name, port, url: `redis://${LOOPBACK}:${port}`, pid, freeze, thaw, stop };
}

/** Ends Redis and its folder with this process, also when that is killed hard. Returns what undoes the arrangement. */
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

/** Asks for the process id rather than PING: another Redis on the same port would answer PING too. */
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
  // Redis says "Address already in use" and then, as its last line, that it gives up listening.
  if (/in use|Failed listening/.test(lastLine)) return new PortLost(`port ${port} (Redis ${name}) is taken`);
  const what = error instanceof Error ? error.message : String(error);
  return new StackError(`Redis ${name} (port ${port}) ${what}; its last words: ${lastLine}`);
}
