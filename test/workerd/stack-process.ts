// The real stack on free ports, for as long as the process that forked this one lives.
import { startStack } from '../../local/stack.ts';

const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
const stack = await startStack({ ports, say: () => {} });

process.once('disconnect', async () => {
  await stack[Symbol.asyncDispose]();
  process.exit(0);
});
process.send?.(stack.variables);
