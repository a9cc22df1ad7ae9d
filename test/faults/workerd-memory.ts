// The memory of the workerd processes that this process has started. Undefined where there is no /proc.
import { readdir, readFile } from 'node:fs/promises';

export async function workerdMegabytes(): Promise<number | undefined> {
  const names = await readdir('/proc').catch(() => []);
  const sizes = await Promise.all(names.filter((name) => /^\d+$/.test(name)).map(megabytesOf));
  const own = sizes.filter((size) => size !== undefined);
  return own.length > 0 ? own.reduce((sum, size) => sum + size, 0) : undefined;
}

async function megabytesOf(pid: string): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1];
  if (field('Name') !== 'workerd' || field('PPid') !== String(process.pid)) return undefined;
  return Number(field('VmRSS')) / 1_024;
}
