// Two tiers: `node` (core, local stack, end to end) and `workerd` (what must run inside the Workers runtime). A third
// one, for `npm run test:upstash-lua` alone: all that runs scripts, on the Lua that Upstash runs.
import { readFileSync } from 'node:fs';
import { cloudflareTest } from '@cloudflare/vitest-plugin';
import type { Plugin } from 'vite';
import { defineConfig, type TestProjectConfiguration } from 'vitest/config';

/** What `[[rules]] type = "Text"` in wrangler.toml does for the Worker. */
const luaAsText: Plugin = {
  name: 'lua-as-text',
  load(id) {
    return id.endsWith('.lua') ? `export default ${JSON.stringify(readFileSync(id, 'utf8'))}` : undefined;
  },
};

const timeouts = { testTimeout: 30_000, hookTimeout: 60_000 };

const node: TestProjectConfiguration = {
  plugins: [luaAsText],
  test: {
    name: 'node',
    include: ['test/**/*.test.ts'],
    exclude: ['test/workerd/**', 'test/upstash-lua/**'],
    globalSetup: ['test/install-redis.ts'],
    ...timeouts,
  },
};

const workerd: TestProjectConfiguration = {
  plugins: [
    cloudflareTest(({ inject }) => ({
      wrangler: { configPath: './wrangler.toml' },
      miniflare: { bindings: inject('workerVariables') },
    })),
  ],
  test: {
    name: 'workerd',
    include: ['test/workerd/**/*.test.ts'],
    globalSetup: ['test/install-redis.ts', 'test/workerd/start-stack.ts'],
    ...timeouts,
  },
};

const upstashLua: TestProjectConfiguration = {
  plugins: [luaAsText],
  test: {
    name: 'upstash-lua',
    include: ['test/redis/**/*.test.ts', 'test/upstash-lua/**/*.test.ts'],
    globalSetup: ['test/install-redis.ts'],
    // gopher-lua takes ten times as long as the Lua of Redis.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
};

export default defineConfig({
  test: {
    reporters: ['default', './test/closing-line.ts'],
    projects: process.env['WEIR_LUA'] === 'gopher' ? [upstashLua] : [node, workerd],
  },
});
