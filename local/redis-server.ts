// A real redis-server for the local stack: finds it (or installs it without asking), runs it, kills it and starts it again.
import { findBinary, findOrInstall, type Machine } from './packages.ts';
import { assertPortFree, freePort, LOOPBACK, StackError } from './ports.ts';
import { PortLost, type RedisProcess, startRedisProcess } from './redis-process.ts';

const INSTALL_HINT =
  'install Redis 7 ("apt-get install redis-server" or "brew install redis") and run this again';

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
  /** False once the process has ended, by itself or by `kill`. */
  isRunning(): boolean;
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
export function findOrInstallRedis(machine: Machine): Promise<string> {
  return findOrInstall(machine, {
    name: 'redis-server',
    find: (binary) => binary('redis-server'),
    apt: ['redis-server'],
    brew: ['redis'],
    hint: INSTALL_HINT,
  });
}

/** Starts a redis-server that keeps nothing on disk; port 0 picks a free one. */
export async function startRedisServer(options: RedisServerOptions): Promise<RedisServer> {
  const binary = options.binary ?? findBinary('redis-server');
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
    isRunning: () => running.isAlive(),
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
