// Runs the built program in front of one redis-server. The program ends with this process, however that ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { LOOPBACK, StackError } from '../ports.ts';
import { followOutput } from '../redis-process.ts';

export interface LuaProxy {
  readonly port: number;
  stop(): Promise<void>;
}

export async function startLuaProxy(binary: string, redisPort: number): Promise<LuaProxy> {
  // Detached, so that Ctrl-C in the terminal reaches only this process. The program ends when its standard input does.
  const child = spawn(binary, ['-redis', `${LOOPBACK}:${redisPort}`], { detached: true });
  const lastLine = followOutput(child);
  const ended = once(child, 'close').catch(() => []);
  const port = await Promise.race([once(createInterface(child.stdout), 'line'), ended]);
  if (!Number(port[0])) throw new StackError(`the Lua that Upstash runs does not start: ${lastLine()}`);
  return {
    port: Number(port[0]),
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}
