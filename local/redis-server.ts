// A real redis-server for the local stack. Finds or installs it, runs it, kills it and starts it again.
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
  /** The id of the process started last. */
  readonly pid: number;
  /** False once the process has ended, by itself or by `kill`. */
  isRunning(): boolean;
  /** Stops the process from answering, like a host that swaps or a network that drops packets. */
  freeze(): void;
  thaw(): void;
  /** Ends the process like a crash. Its data are gone. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port. Does nothing while it runs. */
  start(): Promise<void>;
  /** Kills it for good. */
  stop(): Promise<void>;
}

/** The path of redis-server. Installs it where that asks no question, and says so in one line. */
export function findOrInstallRedis(machine: Machine): Promise<string> {
  return findOrInstall(machine, {
    name: 'redis-server',
    find: (binary) => binary('redis-server'),
    apt: ['redis-server'],
    brew: ['redis'],
    hint: INSTALL_HINT,
  });
}

/** Starts a redis-server that keeps nothing on disk. Port 0 picks a free one. */
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
      // Another program may take a free port before Redis opens it.
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
  // Changes run one after the other: a kill during a start must find a process to kill.
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
