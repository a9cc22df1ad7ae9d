// Builds the Worker so that the functions that some of its files import can fail, and those of their own that the guard
// calls. The names come from the sources themselves: a function that the gateway calls tomorrow is tested tomorrow.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { ROOT, WORKER_BUILD } from '../../../local/worker-build.ts';

/** The files on the way of a request, from the door to the origin. */
const FILES = [
  'src/wiring/core.ts',
  'src/wiring/deployment.ts',
  'src/wiring/isolate.ts',
  'src/wiring/library.ts',
  'src/hono.ts',
  'src/gateway/app.ts',
  'src/gateway/gateway.ts',
  'src/proxy/origins.ts',
  'src/gateway/internal-routes.ts',
];
const RUNTIME = fileURLToPath(new URL('./runtime.ts', import.meta.url));
const ENTRY = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** A function that the guard calls, given by its name. */
const GUARDED = /\battempt(?:Later)?\(\s*(?:\w+\.)?log,\s*(\w+),/g;

const IMPORT = /^import \{([^}]*)\} from '(\.[^']+)';$/gm;

/** `import { a } from './b.ts'` becomes an import of the real `a`, and a constant `a` that can fail. */
export function withFailingImports(file: string, source: string): string {
  const failing: string[] = [];
  const text = source.replaceAll(IMPORT, (_, list: string, from: string) => {
    const names = list
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '');
    const values = names.filter((name) => !name.startsWith('type '));
    for (const name of values)
      failing.push(`const ${name} = __failing('${file.replace(/^src\//, '')} ${name}', __real_${name});`);
    const imported = names.map((name) => (values.includes(name) ? `${name} as __real_${name}` : name));
    return `import { ${imported.join(', ')} } from '${from}';`;
  });
  const own = new Set([...source.matchAll(GUARDED)].map(([, name = '']) => name));
  const whole = [...own].reduce((before, name) => {
    const declared = new RegExp(`^(export )?(?=(?:async )?function ${name}\\b)`, 'm');
    const [, exported = ''] = declared.exec(before) ?? [];
    if (!declared.test(before)) return before;
    failing.push(
      `${exported}const ${name} = __failing('${file.replace(/^src\//, '')} ${name}', __real_${name});`,
    );
    return before.replace(declared, '').replace(`function ${name}`, `function __real_${name}`);
  }, text);
  if (failing.length === 0) throw new Error(`${file} imports nothing that could fail`);
  return `import { failing as __failing } from '${RUNTIME}';\n${whole}\n`.replace(
    /(?<=\n)(?=(?:export )?(?:interface|const|type|async|function|class|\/\*\*))/,
    `${failing.join('\n')}\n`,
  );
}

const SERVICES = 'createApp(parts.services)';

function withFailingServices(source: string): string {
  if (!source.includes(SERVICES)) throw new Error(`src/wiring/core.ts does not say ${SERVICES}`);
  const wrapped = source.replace(SERVICES, 'createApp(__failingServices(parts.services))');
  return `import { failingServices as __failingServices } from '${RUNTIME}';\n${wrapped}`;
}

const faulty: Plugin = {
  name: 'faulty',
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => {
      const file = path.slice(ROOT.length).replace(/^\//, '');
      const source = await readFile(path, 'utf8');
      if (!FILES.includes(file)) return undefined;
      const contents = withFailingImports(file, source);
      return {
        loader: 'ts',
        contents: file === 'src/wiring/core.ts' ? withFailingServices(contents) : contents,
      };
    });
  },
};

export async function buildFaultyWorker(folder: string): Promise<void> {
  await build({
    ...WORKER_BUILD,
    // Logs name places in the code.
    minify: false,
    logLevel: 'error',
    entryPoints: { index: ENTRY },
    outdir: join(folder),
    plugins: [faulty],
  });
}
