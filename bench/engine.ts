// The counting engine: what a decision costs on one real Redis (time, billed commands, bytes), beside the
// unmodified scripts of @upstash/ratelimit; and how exact the approximate window is.
import { accuracyTable, measureAccuracy, SOURCES } from './engine/accuracy.ts';
import { startBenchRedis } from './engine/bench-redis.ts';
import { bytesTable, measureBytes } from './engine/bytes.ts';
import { commandsTable, measureCommands } from './engine/commands.ts';
import { instructionsTable, measureInstructions } from './engine/instructions.ts';
import { measureMicros, microsTable } from './engine/micros.ts';
import { loadInto } from './engine/rules.ts';
import type { Bench } from './shared/bench.ts';

export const measures =
  'what a decision costs Redis (time, instructions, commands, bytes), beside @upstash/ratelimit';

export const keys = [
  ...['admitted', 'denied', 'peer.admitted', 'peer.denied'].flatMap((verdict) =>
    [1, 3, 5].map((rules) => `commands.${verdict}.${rules}`),
  ),
  ...['one', 'three', 'five', 'burst', 'cost', 'peerSliding', 'floor'].map((name) => `micros.${name}`),
  ...['one', 'three', 'five'].map((name) => `ratios.${name}`),
  ...['burst', 'cost'].map((name) => `overPlain.${name}`),
  ...['admitted', 'denied'].flatMap((verdict) =>
    [1, 3, 5].flatMap((rules) => [
      `instructions.${verdict}.${rules}`,
      `instructions.ratios.${verdict}.${rules}`,
    ]),
  ),
  ...['fresh', 'newWindow', 'cost', 'burst'].map((name) => `instructions.cases.${name}`),
  ...['sliding-window-counter', 'three', 'five', 'peerThree'].map((name) => `bytes.${name}`),
  ...['wrongShare', 'meanError', 'admittedRatio', 'mostAdmitted'].map((name) => `accuracy.${name}`),
];

export const run: Bench = async (options) => {
  await using redis = await startBenchRedis();
  const script = await loadInto(redis);
  const commands = await measureCommands(redis, script);
  const bytes = await measureBytes(redis, script);
  options.say('commands and bytes: counted');
  const accuracy = measureAccuracy(options.scaled(SOURCES));
  options.say('accuracy: measured');
  const time = await measureMicros(redis, script, options);
  const instructions = await measureInstructions(options);
  return {
    tables: [
      commandsTable(commands),
      microsTable(time),
      instructionsTable(instructions),
      bytesTable(bytes),
      accuracyTable(accuracy),
    ],
    json: { commands, ...time, instructions, bytes, accuracy },
  };
};
