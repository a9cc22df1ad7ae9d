// Ends what this process has started, even if this process is killed and can end nothing itself.
import { type ChildProcess, spawn } from 'node:child_process';

/** Runs a line of shell when this process is gone. Kill the returned process once nothing is left to end. */
export function startWatchdog(line: string, ...args: string[]): ChildProcess {
  // `read` returns when the other end of its pipe is gone, which only this process holds.
  const watchdog = spawn('/bin/sh', ['-c', `read _; ${line}`, 'watchdog', ...args], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.on('error', () => {});
  watchdog.stdin.on('error', () => {});
  watchdog.unref();
  return watchdog;
}
