// Runs the tests of a copy of Weir that has one more algorithm. They need no shared parts.
import { defineConfig } from 'vitest/config';
import { luaAsText } from '../../shared/lua-as-text.ts';

export default defineConfig({
  plugins: [luaAsText],
  test: {
    include: ['test/redis/*.test.ts'],
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // One process that loads each module once, because all other tests run beside it.
    isolate: false,
    maxWorkers: 1,
  },
});
