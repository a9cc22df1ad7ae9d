// Two tiers: `node` (core, local stack, end to end) and `workerd` (what must run inside the Workers runtime). A third
// one, for `npm run test:upstash-lua` alone: all that runs scripts, on the Lua that Upstash runs.
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { cloudflareTest } from '@cloudflare/vitest-plugin';
import { defineConfig, type TestProjectConfiguration } from 'vitest/config';
import LongestFirst from './test/longest-first.ts';
import { isLong } from './test/rounds.ts';
import { luaAsText } from './test/shared/lua-as-text.ts';
import { createSharedParts } from './test/shared/parts.ts';

// Tests start many Node processes, of the same few programs: each finds compiled what an earlier one has loaded.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('node_modules/.cache/node', import.meta.url));

const common = {
  // For what never comes: all else is waited for, however busy the machine is.
  testTimeout: isLong ? 1_800_000 : 240_000,
  hookTimeout: 240_000,
  expect: { poll: { timeout: 60_000, interval: 50 } },
};

const node: TestProjectConfiguration = {
  plugins: [luaAsText],
  test: {
    ...common,
    name: 'node',
    include: ['test/**/*.test.ts'],
    exclude: [...(isLong ? [] : ['test/page/long/**']), 'test/workerd/**', 'test/upstash-lua/**'],
    // No fake time passes while real work is under way.
    setupFiles: ['test/shared/fake-time.ts'],
    // Files of one worker share its modules: to load them again for each file takes longer than its tests.
    isolate: false,
  },
};

const workerd: TestProjectConfiguration = {
  plugins: [
    // Asked once for each file.
    cloudflareTest(async ({ inject }) => ({
      wrangler: { configPath: './wrangler.toml' },
      // The sources: what wrangler.toml names is built of them.
      main: './src/worker.ts',
      miniflare: {
        bindings: {
          ...(await createSharedParts(inject('sharedParts')).openStack()),
          ADMIN_TOKEN: 'an-admin-token-for-tests',
          // All parts share this machine: what is tested here is not the deadline.
          DEADLINE_MS: '5000',
          // Tests wait for all that follows a response, and so for the flush.
          TELEMETRY_SECONDS: '0.1',
        },
      },
    })),
  ],
  test: {
    ...common,
    name: 'workerd',
    include: ['test/workerd/*.test.ts'],
  },
};

const upstashLua: TestProjectConfiguration = {
  plugins: [luaAsText],
  test: {
    ...common,
    name: 'upstash-lua',
    include: ['test/redis/**/*.test.ts', 'test/upstash-lua/**/*.test.ts'],
    isolate: false,
  },
};

export default defineConfig({
  test: {
    reporters: ['default', './test/closing-line.ts'],
    globalSetup: ['test/shared/setup.ts'],
    // Twice as many as there are cores: files wait for processes, sockets and clocks, too.
    maxWorkers: 2 * availableParallelism(),
    sequence: { sequencer: LongestFirst },
    projects: process.env['WEIR_LUA'] === 'gopher' ? [upstashLua] : [node, workerd],
  },
});
