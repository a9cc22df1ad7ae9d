// If the Lua of Upstash cannot be built, one line says what to do.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StackError } from '../../local/ports.ts';
import { buildUpstashLua } from '../../local/upstash-lua/build.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'weir-no-go-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const build = (env: NodeJS.ProcessEnv, platform: NodeJS.Platform = 'linux') =>
  buildUpstashLua({ say: () => {}, env: { PATH: folder, ...env }, platform, uid: 0 });

test('without Go and without packages, the build says what to install', async () => {
  const line = new StackError(
    'Go with gopher-lua is not installed: install both ("apt-get install golang-go ' +
      'golang-github-yuin-gopher-lua-dev"), or Go alone and set GOPHER_LUA_SRC to a copy of ' +
      'github.com/yuin/gopher-lua, and run this again',
  );
  await expect(build({})).rejects.toThrow(line);
});

test('a GOPHER_LUA_SRC that is not the source of gopher-lua is refused', async () => {
  await expect(build({ GOPHER_LUA_SRC: folder })).rejects.toThrow(
    new StackError('GOPHER_LUA_SRC is not the source of gopher-lua: it has no state.go'),
  );
});

test('an error of the Go compiler is repeated in one line', async () => {
  writeFileSync(join(folder, 'state.go'), 'package lua');
  writeFileSync(join(folder, 'go'), '#!/bin/sh\necho "go: no such thing" >&2\nexit 2\n', { mode: 0o755 });
  const line = 'the Lua that Upstash runs could not be built: go: no such thing';
  await expect(build({ GOPHER_LUA_SRC: folder })).rejects.toThrow(new StackError(line));
});
