// `weir rules`: writes rules, tiers and routes to a file, compares a file with those in force, and applies it.
import { readFile, writeFile } from 'node:fs/promises';
import { type Command, type CommandContext, CommandError, type ExitCode } from '../command.ts';

const LISTS = ['tiers', 'rules', 'routes'] as const;

interface Part {
  readonly created: readonly string[];
  readonly updated: readonly {
    readonly name: string;
    readonly changes: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
  }[];
  readonly deleted: readonly string[];
}
type Summary = Record<(typeof LISTS)[number], Part> & {
  /** The last change that the answer takes into account. */
  readonly basedOn: number;
  readonly settings: { readonly changes: Part['updated'][number]['changes'] };
  readonly warnings: readonly string[];
};

export const rules: Command = {
  usage: 'rules diff FILE | apply FILE [--prune] [--force] | export [FILE]',
  does: 'compares a file with the rules in force (exit 2: they differ), applies it, or writes one',
  options: { prune: undefined, force: undefined },
  async run(context) {
    const [action, file] = context.words;
    if (action === 'export') return exportTo(context, file);
    if ((action !== 'diff' && action !== 'apply') || file === undefined)
      throw new CommandError(`usage: weir ${rules.usage}`);
    const document = await readDocument(file);
    return action === 'diff' ? diff(context, document) : apply(context, document);
  },
};

async function exportTo({ api, say, report }: CommandContext, file: string | undefined): Promise<ExitCode> {
  const text = await api.adminText('/export');
  report(JSON.parse(text));
  if (file === undefined) say(text.trimEnd());
  else {
    await writeFile(file, text);
    say(`wrote ${file}`);
  }
  return 0;
}

export async function readDocument(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(file, 'utf8').catch(() => {
    throw new CommandError(`${file} cannot be read`);
  });
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new CommandError(`${file} is not JSON: ${(error as Error).message}`);
  }
}

/** A rule that is in force but not in the file is a difference, too. */
async function diff({ api, say, report }: CommandContext, document: object): Promise<ExitCode> {
  const { basedOn: _, ...said } = document as { basedOn?: unknown };
  const summary = await api.admin<Summary>('POST', '/import?dryRun=true&mode=replace', said);
  const lines = describe(summary);
  report({ drift: lines.length > 0, ...summary });
  for (const line of lines) say(line);
  say(lines.length === 0 ? 'no difference' : `${lines.length} differences`);
  return lines.length === 0 ? 0 : 2;
}

/**
 * Plans first, and applies only what the plan saw. So a change that somebody makes meanwhile is not overwritten, and a
 * file can be applied again after its own rules are in force.
 */
async function apply({ api, options, say, report }: CommandContext, document: object): Promise<ExitCode> {
  const mode = options['prune'] === true ? 'replace' : 'merge';
  const { basedOn: _, ...said } = document as { basedOn?: unknown };
  const plan = await api.admin<Summary>('POST', `/import?mode=${mode}&dryRun=true`, said);
  const planned = options['force'] === true ? said : { ...said, basedOn: plan.basedOn };
  const summary = await api.admin<Summary>('POST', `/import?mode=${mode}`, planned);
  report(summary);
  const lines = describe(summary);
  for (const line of lines) say(line);
  for (const warning of summary.warnings) say(`warning: ${warning}`);
  say(lines.length === 0 ? 'nothing to change' : `${lines.length} changes are in force`);
  return 0;
}

function describe(summary: Summary): string[] {
  const { changes } = summary.settings;
  const settings = Object.keys(changes).length > 0 ? [`~ settings: ${describeChanges(changes)}`] : [];
  return [...LISTS.flatMap((list) => describePart(list, summary[list])), ...settings];
}

const describePart = (list: string, { created, updated, deleted }: Part): string[] => [
  ...created.map((name) => `+ ${list} ${name}`),
  ...updated.map(({ name, changes }) => `~ ${list} ${name}: ${describeChanges(changes)}`),
  ...deleted.map((name) => `- ${list} ${name}`),
];

const describeChanges = (changes: Part['updated'][number]['changes']): string =>
  Object.entries(changes)
    .map(([field, { from, to }]) => `${field} ${JSON.stringify(from)} → ${JSON.stringify(to)}`)
    .join(', ');
