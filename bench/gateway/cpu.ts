// Reads the processor time of a process, all threads together, on Linux.
import { readdir, readFile } from 'node:fs/promises';

/** In microseconds. NaN if the system does not report it. */
export async function cpuMicros(pid: number): Promise<number> {
  try {
    const threads = await readdir(`/proc/${pid}/task`);
    const nanos = await Promise.all(threads.map((thread) => threadNanos(`/proc/${pid}/task/${thread}`)));
    return nanos.reduce((sum, value) => sum + value, 0) / 1_000;
  } catch {
    return Number.NaN;
  }
}

const threadNanos = async (folder: string) =>
  Number((await readFile(`${folder}/schedstat`, 'utf8')).split(' ')[0]);
