// Programs of the distribution that the local stack runs: finds one, or installs it where that needs no answer from anyone.
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { StackError } from './ports.ts';
import { followOutput } from './process-output.ts';

const INSTALL_TIMEOUT_MS = 300_000;

export interface FindOptions {
  say(line: string): void;
  env?: NodeJS.ProcessEnv;
  platform?: NodeJS.Platform;
  uid?: number | undefined;
}

export interface Program {
  readonly name: string;
  readonly packages: { readonly apt: string; readonly brew: string };
  /** What the person at the terminal can do if nothing else helps. */
  readonly hint: string;
  find(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string | undefined;
}

/** Where the program is; installs it after one line through `say`. */
export async function findOrInstall(program: Program, options: FindOptions): Promise<string> {
  const { say, env = process.env, platform = process.platform, uid = process.getuid?.() } = options;
  const { name, hint } = program;
  const found = program.find(env, platform);
  if (found !== undefined) return found;
  const steps = await installSteps(program, env, platform, uid);
  if (steps === undefined) throw new StackError(`${name} is not installed: ${hint}`);
  say(`${name} is not installed: installing it with ${steps.tool} (takes some seconds)`);
  const trouble = await install(steps, env);
  const installed = program.find(env, platform);
  if (installed !== undefined) return installed;
  throw new StackError(`${steps.tool} could not install ${name} (${trouble}): ${hint}`);
}

/** On the PATH, or where Homebrew puts it. */
export function findBinary(
  name: string,
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
): string | undefined {
  // Homebrew's folder is often missing from the PATH of a shell that was open before it was installed.
  const extra = platform === 'darwin' ? ['/opt/homebrew/bin', '/usr/local/bin'] : [];
  const folders = [...(env.PATH ?? '').split(delimiter).filter(Boolean), ...extra];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

interface InstallSteps {
  tool: string;
  install: string[];
  /** Run only when `install` failed; then `install` is tried again. */
  refresh?: string[];
}

async function installSteps(
  { packages }: Program,
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
  uid: number | undefined,
): Promise<InstallSteps | undefined> {
  const brew = findBinary('brew', env, platform);
  const apt = findBinary('apt-get', env, platform);
  if (platform === 'darwin' && brew !== undefined) {
    const quiet = ['/usr/bin/env', 'HOMEBREW_NO_AUTO_UPDATE=1', 'NONINTERACTIVE=1'];
    return { tool: 'brew', install: [...quiet, brew, 'install', packages.brew] };
  }
  if (apt === undefined) return undefined;
  const sudo = uid === 0 ? [] : await passwordlessSudo(env, platform);
  if (sudo === undefined) return undefined;
  // The package starts a system service. These two tell invoke-rc.d and systemctl not to, and leave nothing behind.
  const noService = ['RUNLEVEL=1', 'SYSTEMD_OFFLINE=1'];
  const quiet = [...sudo, '/usr/bin/env', 'DEBIAN_FRONTEND=noninteractive', ...noService];
  const options = ['-y', '-q', '-o', 'DPkg::Lock::Timeout=120'];
  return {
    tool: 'apt-get',
    install: [...quiet, apt, 'install', ...options, '--no-install-recommends', packages.apt],
    refresh: [...quiet, apt, 'update', ...options],
  };
}

async function passwordlessSudo(env: NodeJS.ProcessEnv, platform: NodeJS.Platform) {
  const sudo = findBinary('sudo', env, platform);
  if (sudo === undefined) return undefined;
  const { code } = await run([sudo, '-n', 'true'], env);
  return code === 0 ? [sudo, '-n'] : undefined;
}

/** Resolves to the last thing the installer said, for the error message should the program still be missing. */
async function install(steps: InstallSteps, env: NodeJS.ProcessEnv): Promise<string> {
  let result = await run(steps.install, env);
  if (result.code !== 0 && steps.refresh !== undefined) {
    await run(steps.refresh, env);
    result = await run(steps.install, env);
  }
  return result.lastLine;
}

function run(command: string[], env: NodeJS.ProcessEnv): Promise<{ code: number | null; lastLine: string }> {
  const [program = '', ...args] = command;
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    });
    const lastLine = followOutput(child);
    child.on('error', () => resolve({ code: null, lastLine: lastLine() }));
    child.on('close', (code) => resolve({ code, lastLine: lastLine() }));
  });
}
