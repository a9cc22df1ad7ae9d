// `weir explain`: which rules apply to a request, and what is left of them.
import { type Command, CommandError, textOption } from '../command.ts';
import { renderTable } from '../table.ts';

interface Explanation {
  readonly path: string;
  readonly method: string;
  readonly listed: string | null;
  readonly applies: readonly {
    readonly name: string;
    readonly limit: number;
    readonly windowSeconds: number;
    readonly cost: number;
    /** The id is null if it depends on the address, and none was given. */
    readonly subject: { readonly scope: string; readonly id: string | null };
    readonly left: { readonly allowed: boolean; readonly remaining: number } | null;
  }[];
  readonly doesNotApply: readonly { readonly name: string; readonly detail: string }[];
}

/** The options, and the field of the question that each one fills. */
const FIELDS = {
  ip: 'ip',
  user: 'userId',
  key: 'apiKey',
  tenant: 'tenantId',
  tier: 'tier',
  region: 'region',
} as const;

export const explain: Command = {
  usage:
    'explain [METHOD] PATH [--ip IP] [--user ID] [--key KEY] [--tenant ID] [--tier NAME] [--region NAME]',
  does: 'says which rules apply to a request, which do not, and why',
  options: { ip: 'IP', user: 'ID', key: 'KEY', tenant: 'ID', tier: 'NAME', region: 'NAME' },
  async run({ api, words, options, say, report }) {
    const path = words.at(-1);
    if (path === undefined || words.length > 2) throw new CommandError(`usage: weir ${explain.usage}`);
    const given = Object.entries(FIELDS).flatMap(([option, field]) => {
      const value = textOption(options, option);
      return value === undefined ? [] : [[field, value]];
    });
    const method = words.length === 2 ? words[0]?.toUpperCase() : 'GET';
    const question = { method, path, ...Object.fromEntries(given) };
    const answer = await api.admin<Explanation>('POST', '/explain', question);
    report(answer);
    say(`${answer.method} ${answer.path}: ${verdictOf(answer)}`);
    const rows = [
      ...answer.applies.map((limit) => ['applies', limit.name, describe(limit)]),
      ...answer.doesNotApply.map(({ name, detail }) => ['does not', name, detail]),
    ];
    for (const line of renderTable(rows)) say(line);
    return 0;
  },
};

function verdictOf({ listed, applies }: Explanation): string {
  if (listed !== null) return `the caller is on the ${listed} list, so no rule matters`;
  const denying = applies.filter(({ left }) => left?.allowed === false).map(({ name }) => name);
  if (denying.length > 0) return `denied now by ${denying.join(', ')}`;
  if (applies.some(dependsOnAddress)) return 'depends on the address (--ip)';
  return applies.length === 0 ? 'no rule applies' : 'passes now';
}

type Applied = Explanation['applies'][number];

const dependsOnAddress = ({ subject }: Applied): boolean => subject.id === null;

function describe(applied: Applied): string {
  const { limit, windowSeconds, cost, subject, left } = applied;
  const rule = `${limit} in ${windowSeconds} s for ${subject.scope} ${subject.id ?? '(any)'}, cost ${cost}, `;
  if (dependsOnAddress(applied)) return `${rule}depends on the address`;
  return rule + (left ? `${left.remaining} left` : 'the counters did not answer');
}
