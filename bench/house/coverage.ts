// Which files of src run while the Worker does some work, as V8 counts calls of functions. workerd does not let others
// count, so the Worker runs in this process.
import { readFile } from 'node:fs/promises';
import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';

export interface Coverage {
  /** Files of src in which a function ran, and how many calls there were in each. */
  readonly files: ReadonlyMap<string, number>;
  /** Calls of asynchronous functions: each makes a promise. */
  readonly asyncCalls: number;
}

export interface CoverageWatch extends Disposable {
  /** What ran since the last call of this function. */
  take(): Promise<Coverage>;
}

/** The folder holds modules that esbuild has bundled, not minified. */
export async function watchCoverage(folder: string): Promise<CoverageWatch> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const modules = new Map<string, Promise<Module>>();
  const moduleOf = (file: string) => {
    const known = modules.get(file) ?? readFile(file, 'utf8').then(toModule);
    modules.set(file, known);
    return known;
  };
  return {
    async take() {
      const { result } = await session.post('Profiler.takePreciseCoverage');
      const files = new Map<string, number>();
      let asyncCalls = 0;
      for (const { url, functions } of result) {
        const file = url.startsWith('file://') ? fileURLToPath(url) : '';
        if (!file.startsWith(folder)) continue;
        const { text, sourceAt } = await moduleOf(file);
        for (const { ranges } of functions) {
          const { startOffset = 0, count = 0 } = ranges[0] ?? {};
          const source = sourceAt(startOffset);
          // The body of a module counts as a function that begins where the module does.
          if (count === 0 || startOffset === 0 || !source.startsWith('src/')) continue;
          files.set(source, (files.get(source) ?? 0) + count);
          if (/^(?:static )?async\b/.test(text.slice(startOffset, startOffset + 20))) asyncCalls += count;
        }
      }
      return { files, asyncCalls };
    },
    [Symbol.dispose]: () => session.disconnect(),
  };
}

interface Module {
  readonly text: string;
  sourceAt(offset: number): string;
}

/** esbuild names each source file in a comment above its code. */
function toModule(text: string): Module {
  const sources = [...text.matchAll(/^\/\/ ([\w@./-]+\.\w+)$/gm)].map((match) => ({
    from: match.index,
    file: match[1] ?? '',
  }));
  return { text, sourceAt: (offset) => sources.findLast(({ from }) => from <= offset)?.file ?? '' };
}
