// `weir quota`: asks for the limits of a caller, and what is left of them, as that caller.
import { type Command, textOption } from '../command.ts';
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
    const body = await api.asCaller<Quota>('/_weir/quota', {
      ...(key !== undefined && { 'X-API-Key': key }),
      ...(jwt !== undefined && { Authorization: `Bearer ${jwt}` }),
    });
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
