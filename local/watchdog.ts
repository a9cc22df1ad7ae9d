// Ends what this process has started, also when this process is killed hard and can end nothing itself.
import { type ChildProcess, spawn } from 'node:child_process';

/** Runs a line of shell when this process is gone; kill what it returns once there is nothing left to end. */
export function startWatchdog(line: string, ...args: string[]): ChildProcess {
  // `read` returns when the other end of its pipe, which only this process holds, is gone.
  const watchdog = spawn('/bin/sh', ['-c', `read _; ${line}`, 'watchdog', ...args], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.on('error', () => {});
  watchdog.stdin.on('error', () => {});
  watchdog.unref();
  return watchdog;
}
