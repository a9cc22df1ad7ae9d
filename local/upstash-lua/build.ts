// Builds the program beside this file from the distribution's Go and gopher-lua, or from another copy of gopher-lua.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findOrInstall, type Machine, runCommand } from '../packages.ts';
import { StackError } from '../ports.ts';

const OURS = dirname(fileURLToPath(import.meta.url));
const CACHE = resolve(OURS, '../../node_modules/.cache/upstash-lua');
const IMPORT_PATH = join('src', 'github.com', 'yuin', 'gopher-lua');
/** Where Debian and its descendants keep the sources of Go packages. */
const DISTRIBUTION = '/usr/share/gocode';
const PACKAGES = ['golang-go', 'golang-github-yuin-gopher-lua-dev'];
const HINT =
  `install both ("apt-get install ${PACKAGES.join(' ')}"), or Go alone and set GOPHER_LUA_SRC ` +
  'to a copy of github.com/yuin/gopher-lua, and run this again';

/** The path of the program. Builds it if its sources or those of gopher-lua have changed. */
export async function buildUpstashLua(machine: Machine): Promise<string> {
  const { env = process.env } = machine;
  const own = env['GOPHER_LUA_SRC'] ? resolve(env['GOPHER_LUA_SRC']) : undefined;
  if (own !== undefined && !existsSync(join(own, 'state.go')))
    throw new StackError('GOPHER_LUA_SRC is not the source of gopher-lua: it has no state.go');
  const go = await findOrInstallGo(machine, own);
  const library = own ?? join(DISTRIBUTION, IMPORT_PATH);
  const binary = join(CACHE, await hashSources([OURS, library]));
  if (!existsSync(binary)) {
    machine.say('building the Lua that Upstash runs (takes some seconds)');
    await build({ go, library, binary, env });
  }
  return binary;
}

function findOrInstallGo(machine: Machine, own: string | undefined): Promise<string> {
  return findOrInstall(machine, {
    name: 'Go with gopher-lua',
    find: (binary) => (own || existsSync(join(DISTRIBUTION, IMPORT_PATH)) ? binary('go') : undefined),
    apt: own ? PACKAGES.slice(0, 1) : PACKAGES,
    brew: own ? ['go'] : [],
    hint: HINT,
  });
}

async function hashSources(folders: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const folder of folders) {
    const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.go')).sort();
    for (const file of files) hash.update(`${file}\n`).update(await readFile(join(folder, file)));
  }
  return hash.digest('hex').slice(0, 16);
}

interface Build {
  readonly go: string;
  readonly library: string;
  readonly binary: string;
  readonly env: NodeJS.ProcessEnv;
}

async function build({ go, library, binary, env }: Build): Promise<void> {
  // Without modules, so that Go downloads nothing. Go then looks for a package under its import path.
  const gopath = await mkdtemp(join(tmpdir(), 'weir-gopath-'));
  // Renamed when complete, because two runs may build at the same time.
  const unfinished = `${binary}.${randomUUID()}`;
  try {
    await mkdir(CACHE, { recursive: true });
    await mkdir(dirname(join(gopath, IMPORT_PATH)), { recursive: true });
    await symlink(library, join(gopath, IMPORT_PATH));
    const command = [go, 'build', '-o', unfinished, '.'];
    const offline = { GO111MODULE: 'off', GOFLAGS: '', GOPATH: gopath, CGO_ENABLED: '0' };
    const { code, lastLine } = await runCommand(command, { ...env, ...offline }, OURS);
    if (code !== 0) throw new StackError(`the Lua that Upstash runs could not be built: ${lastLine}`);
    await rename(unfinished, binary);
  } finally {
    await rm(unfinished, { force: true });
    await rm(gopath, { recursive: true, force: true });
  }
}
