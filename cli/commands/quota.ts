// `weir quota`: asks for the limits of a caller, and what is left of them, as that caller.
import { type Command, CommandError, textOption } from '../command.ts';
import { renderTable } from '../table.ts';

interface Quota {
  readonly limits?: readonly Record<string, unknown>[];
}

export const quota: Command = {
  usage: 'quota [--key KEY] [--jwt TOKEN]',
  does: 'shows the limits of a caller and what is left of them; it charges nothing',
  options: { key: 'KEY', jwt: 'TOKEN' },
  async run({ api, options, say, report }) {
    const key = textOption(options, 'key');
    const jwt = textOption(options, 'jwt');
    const answer = await api.call('/_weir/quota', {
      ...(key !== undefined && { 'X-API-Key': key }),
      ...(jwt !== undefined && { Authorization: `Bearer ${jwt}` }),
    });
    const body = (await answer.json().catch(() => undefined)) as Quota | undefined;
    if (!answer.ok || body === undefined) throw new CommandError(`${api.url} answers ${answer.status}`);
    report(body);
    const limits = body.limits ?? [];
    const header = Object.keys(limits[0] ?? {});
    const rows = limits.map((limit) => header.map((field) => textOf(limit[field])));
    for (const line of rows.length === 0 ? ['no limits'] : renderTable([header, ...rows])) say(line);
    return 0;
  },
};

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value ?? null);
