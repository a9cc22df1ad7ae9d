// The take of an earlier version: the announcement is one of the script's keys, and the script compares it.
import type { Check } from '../../src/core/counting/check.ts';
import { ANNOUNCEMENT_KEY } from '../../src/core/counting/keys.ts';
import type { Client } from '../../src/redis/client.ts';
import { loadScript } from '../../src/redis/script.ts';
import { toScriptCall } from '../../src/redis/wire.ts';

/** The last key and the last argument are those of the announcement. */
const COMPARE = `
local pointer, expected = table.remove(KEYS), table.remove(ARGV)
local announced = redis.call('GET', pointer)
if announced and announced ~= expected then return { 0, announced } end`;

export async function createTakeWithKey(client: Client, expected: string) {
  const { text } = await loadScript();
  const [flag = '', ...rest] = text.split('\n');
  const script = [flag, COMPARE.trim(), ...rest].join('\n');
  const sha = await client.send(AbortSignal.timeout(5_000), (redis) => redis.scriptLoad(script));
  return (checks: readonly Check[], signal: AbortSignal): Promise<unknown> => {
    const { keys, args } = toScriptCall('take', { checks });
    return client.send(signal, (redis) =>
      redis.evalsha(sha, [...keys, ANNOUNCEMENT_KEY], [...args, expected]),
    );
  };
}
