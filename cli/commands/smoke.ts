// `weir smoke`: the deployment tests each of its parts once, from where it serves requests.
import type { Command } from '../command.ts';
import { renderTable } from '../table.ts';

interface Report {
  readonly ok: boolean;
  readonly servedFrom?: string;
  readonly findings: readonly {
    readonly part: string;
    readonly check: string;
    readonly state: string;
    readonly found: string;
    readonly advice?: string;
  }[];
}

export const smoke: Command = {
  usage: 'smoke [URL]',
  does: 'tests Redis of every region, its Lua and clock, KV and Postgres once, and reports the results',
  options: {},
  async run({ api, say, report }) {
    const startedAtMs = performance.now();
    const result = await api.admin<Report>('POST', '/smoke');
    const tookMs = Math.round(performance.now() - startedAtMs);
    report({ url: api.url, tookMs, ...result });
    const from = result.servedFrom === undefined ? '' : `, served from ${result.servedFrom}`;
    say(`${api.url}${from}, in ${tookMs} ms`);
    say('');
    const rows = result.findings.map(({ part, check, state, found }) => [part, check, state, found]);
    for (const line of renderTable([['part', 'check', 'state', 'found'], ...rows])) say(line);
    const advised = result.findings.filter(({ advice }) => advice !== undefined);
    if (advised.length > 0) say('');
    for (const { part, check, advice } of advised) say(`${part}, ${check}: ${advice}`);
    return result.ok ? 0 : 1;
  },
};
