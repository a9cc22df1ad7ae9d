// Finds programs that the local stack needs, or installs them from the distribution's packages.
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { StackError } from './ports.ts';
import { followOutput } from './redis-process.ts';

const INSTALL_TIMEOUT_MS = 300_000;

export interface Machine {
  say(line: string): void;
  env?: NodeJS.ProcessEnv;
  platform?: NodeJS.Platform;
  uid?: number | undefined;
}

export interface Needed<T> {
  /** The name in the sentence "… is not installed". */
  readonly name: string;
  find(binary: (name: string) => string | undefined): T | undefined;
  readonly apt: readonly string[];
  /** Empty if brew does not have the program. */
  readonly brew: readonly string[];
  /** Tells a person how to install the program. */
  readonly hint: string;
}

/**
 * Resolves to what `find` finds. If it finds nothing, installs the program where that asks no question, and says so in
 * one line.
 */
export async function findOrInstall<T>(machine: Machine, needed: Needed<T>): Promise<T> {
  const { say, env = process.env, platform = process.platform, uid = process.getuid?.() } = machine;
  const find = () => needed.find((name) => findBinary(name, env, platform));
  const found = find();
  if (found !== undefined) return found;
  const steps = await installSteps(needed, { env, platform, uid });
  if (steps === undefined) throw new StackError(`${needed.name} is not installed: ${needed.hint}`);
  say(`${needed.name} is not installed: installing it with ${steps.tool} (takes some seconds)`);
  const trouble = await install(steps, env);
  const installed = find();
  if (installed !== undefined) return installed;
  throw new StackError(`${steps.tool} could not install ${needed.name} (${trouble}): ${needed.hint}`);
}

/** Looks for all programs before it fails, so that a person can install all missing ones at once. */
export async function findOrInstallAll(
  machine: Machine,
  finders: readonly ((machine: Machine) => Promise<unknown>)[],
): Promise<void> {
  const missing: string[] = [];
  // One after the other, because two installers would wait for one lock.
  for (const find of finders)
    await find(machine).catch((error: unknown) => {
      if (!(error instanceof StackError)) throw error;
      missing.push(error.message);
    });
  if (missing.length > 0) throw new StackError(missing.join('\n'));
}

export function findBinary(
  name: string,
  env: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
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
  /** Runs only if `install` failed. Then `install` runs again. */
  refresh?: string[];
}

type Place = Required<Pick<Machine, 'env' | 'platform'>> & Pick<Machine, 'uid'>;

async function installSteps(
  needed: Needed<unknown>,
  { env, platform, uid }: Place,
): Promise<InstallSteps | undefined> {
  const brew = findBinary('brew', env, platform);
  const apt = findBinary('apt-get', env, platform);
  if (platform === 'darwin' && brew !== undefined && needed.brew.length > 0) {
    const quiet = ['/usr/bin/env', 'HOMEBREW_NO_AUTO_UPDATE=1', 'NONINTERACTIVE=1'];
    return { tool: 'brew', install: [...quiet, brew, 'install', ...needed.brew] };
  }
  if (apt === undefined) return undefined;
  const sudo = uid === 0 ? [] : await passwordlessSudo(env, platform);
  if (sudo === undefined) return undefined;
  // A package may start a system service. These two variables tell invoke-rc.d and systemctl not to, and leave nothing
  // behind.
  const noService = ['RUNLEVEL=1', 'SYSTEMD_OFFLINE=1'];
  const quiet = [...sudo, '/usr/bin/env', 'DEBIAN_FRONTEND=noninteractive', ...noService];
  const options = ['-y', '-q', '-o', 'DPkg::Lock::Timeout=120'];
  return {
    tool: 'apt-get',
    install: [...quiet, apt, 'install', ...options, '--no-install-recommends', ...needed.apt],
    refresh: [...quiet, apt, 'update', ...options],
  };
}

async function passwordlessSudo(env: NodeJS.ProcessEnv, platform: NodeJS.Platform) {
  const sudo = findBinary('sudo', env, platform);
  if (sudo === undefined) return undefined;
  const { code } = await runCommand([sudo, '-n', 'true'], env);
  return code === 0 ? [sudo, '-n'] : undefined;
}

/** Resolves to the installer's last line, for the error message in case the program is still missing. */
async function install(steps: InstallSteps, env: NodeJS.ProcessEnv): Promise<string> {
  let result = await runCommand(steps.install, env);
  if (result.code !== 0 && steps.refresh !== undefined) {
    await runCommand(steps.refresh, env);
    result = await runCommand(steps.install, env);
  }
  return result.lastLine;
}

/** Runs a command to its end. */
export function runCommand(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd?: string,
): Promise<{ code: number | null; lastLine: string }> {
  const [program = '', ...args] = command;
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      env,
      cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    });
    const lastLine = followOutput(child);
    child.on('error', () => resolve({ code: null, lastLine: lastLine() }));
    child.on('close', (code) => resolve({ code, lastLine: lastLine() }));
  });
}
