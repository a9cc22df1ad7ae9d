// A real redis-server for the local stack: finds it (or installs it without asking), runs it, kills it and starts it again.
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { assertPortFree, freePort, LOOPBACK, StackError } from './ports.ts';
import { followOutput, PortLost, type RedisProcess, startRedisProcess } from './redis-process.ts';

const INSTALL_TIMEOUT_MS = 300_000;
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
  /** Of the process that was started last. */
  readonly pid: number;
  /** Stops the process from answering, as a host does that swaps or a network that drops packets. */
  freeze(): void;
  thaw(): void;
  /** Ends the process as a crash does. Its data are gone. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port; does nothing while it runs. */
  start(): Promise<void>;
  /** Kills it for good. */
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

/** Starts a redis-server that keeps nothing on disk; port 0 picks a free one. */
export async function startRedisServer(options: RedisServerOptions): Promise<RedisServer> {
  const binary = options.binary ?? findBinary('redis-server', process.env, process.platform);
  if (binary === undefined) throw new StackError(`redis-server is not installed: ${INSTALL_HINT}`);
  const { name, extraArgs = [] } = options;
  const launch = (port: number) => startRedisProcess({ binary, name, port, extraArgs });
  if (options.port !== 0) {
    await assertPortFree(options.port, `Redis ${name}`);
    return serverOf(await launch(options.port), { name, port: options.port, launch });
  }
  for (let attempt = 1; ; attempt++) {
    try {
      const port = await freePort();
      return serverOf(await launch(port), { name, port, launch });
    } catch (error) {
      // Between finding a free port and Redis opening it, somebody else may have taken it.
      if (attempt === 5 || !(error instanceof PortLost)) throw error;
    }
  }
}

interface Restartable {
  readonly name: string;
  readonly port: number;
  launch(port: number): Promise<RedisProcess>;
}

function serverOf(first: RedisProcess, { name, port, launch }: Restartable): RedisServer {
  let running = first;
  let isStopped = false;
  // One change after the other: a kill that comes while it starts must find something to kill.
  let lastChange = Promise.resolve();
  const change = (act: () => Promise<void>) => {
    const done = lastChange.then(act);
    lastChange = done.catch(() => {});
    return done;
  };
  const start = async () => {
    if (isStopped) throw new StackError(`Redis ${name} (port ${port}) is stopped for good`);
    if (!running.isAlive()) running = await launch(port);
  };
  return {
    name,
    port,
    url: `redis://${LOOPBACK}:${port}`,
    get pid() {
      return running.pid;
    },
    freeze: () => running.signal('SIGSTOP'),
    thaw: () => running.signal('SIGCONT'),
    kill: () => change(() => running.end()),
    start: () => change(start),
    stop: () => {
      isStopped = true;
      return change(() => running.end());
    },
  };
}
