// Actions on a caller: another limit until a moment, a list entry until a moment, a reset of counters, a new key.

import { get, patch, post, remove } from '../api.ts';
import { ask, openDialog } from '../dialog.ts';
import { button, type Child, h, toast } from '../dom.ts';
import { choiceField, momentOf, numberField, numberOf, textField, textOf, untilField } from '../fields.ts';
import { count, span } from '../format.ts';
import type { CallerLimit, CallerLimits, Who } from './caller.ts';
import { MAX_LIMIT } from './rule-fields.ts';

export const actionsOf = (who: Who): Child => [
  button('Put on a list…', () => openList(who)),
  button('Reset counters…', () => confirmReset(who)),
  (who.scope === 'user' || who.scope === 'tenant') && button('New key…', () => openKey(who)),
];

type Fields = Readonly<Record<string, unknown>>;

/** Fields that a copy of a rule must not have. */
const NOT_COPIED = [
  ...['id', 'revision', 'createdAt', 'updatedAt', 'name', 'warnings'],
  ...['limitName', 'limitClaim', 'limitMax', 'tiers', 'tenants'],
];

export function openOverride(who: Who, limit: CallerLimit): void {
  if (limit.subject.scope === limit.scope) askForLimit(who, limit);
  else tellWhyNot(limit);
}

function askForLimit(who: Who, limit: CallerLimit): void {
  const isOwn = limit.isOverride;
  openDialog({
    title: `Another limit for ${limit.subject.id}`,
    submit: isOwn ? 'Change the override' : 'Override',
    body: [
      h('p', {}, `“${limit.name}” allows ${count(limit.limit)} every ${span(limit.windowSeconds)}.`),
      numberField(
        { name: 'limit', label: 'New limit', attributes: { required: true } },
        { min: 1, max: MAX_LIMIT },
        limit.limit * 2,
      ),
      untilField('validUntil', 'Until'),
      isOwn && button('End the override now…', () => confirmEnd(limit), { class: 'danger' }),
    ],
    async act(form) {
      const startedAtMs = performance.now();
      const ruleId = await (isOwn ? changeOverride(limit, form) : createOverride(limit, form));
      toast(await inForce(who, { ruleId, limit: numberOf(form, 'limit') ?? 0 }, startedAtMs));
    },
  });
}

const tellWhyNot = ({ scope }: CallerLimit) =>
  toast(
    `This limit counts by ${scope}, and the caller has none: it is counted by its address. An override cannot name it. Put the address on the allow list, or change the rule.`,
    'bad',
  );

/** The same rule for this subject alone, in the same slot. A rule that names its subject wins. */
async function createOverride(limit: CallerLimit, form: HTMLFormElement): Promise<string> {
  const rule = await get<Fields>(`/rules/${limit.ruleId}`);
  const copied = Object.fromEntries(Object.entries(rule).filter(([name]) => !NOT_COPIED.includes(name)));
  const wanted = numberOf(form, 'limit');
  const { id } = await post<{ id: string }>('/rules', {
    ...copied,
    ...changedLimit(rule, limit, wanted),
    name:
      `override: ${limit.subject.id} on ${String(rule['name'])}`.slice(0, 100) +
      ` ${Date.now().toString(36)}`,
    subjects: [limit.subject.id],
    validUntil: momentOf(form, 'validUntil'),
  });
  return id;
}

async function changeOverride(limit: CallerLimit, form: HTMLFormElement): Promise<string> {
  const rule = await get<Fields>(`/rules/${limit.ruleId}`);
  const changes = changedLimit(rule, limit, numberOf(form, 'limit'));
  await patch(`/rules/${limit.ruleId}`, { ...changes, validUntil: momentOf(form, 'validUntil') });
  return limit.ruleId;
}

/** Changes the limit with this window, if there are several. A burst grows with its limit. */
function changedLimit(
  { limits, burst }: Fields,
  { windowSeconds, window, limit }: CallerLimit,
  wanted: number | null,
): Fields {
  const grown = (before: unknown) =>
    typeof before === 'number' && wanted ? Math.max(1, Math.round((before * wanted) / limit)) : before;
  if (!Array.isArray(limits) || limits.length === 0) return { limit: wanted, burst: grown(burst) };
  return {
    limits: limits.map((one: Fields) => {
      const isMeant = window ? one['window'] === window : one['windowSeconds'] === windowSeconds;
      if (!isMeant) return one;
      const { limitName: _, limitClaim: __, limitMax: ___, ...rest } = one;
      return { ...rest, limit: wanted, ...(rest['burst'] !== undefined && { burst: grown(rest['burst']) }) };
    }),
  };
}

const MAX_LOOKS = 50;
const LOOK_EVERY_MS = 100;

/** Polls until the limit is the new one. */
async function inForce(
  who: Who,
  wanted: { ruleId: string; limit: number },
  startedAtMs: number,
): Promise<string> {
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const { limits } = await get<CallerLimits>('/limits', { scope: who.scope, subject: who.id });
    const isThere = limits.some(({ ruleId, limit }) => ruleId === wanted.ruleId && limit === wanted.limit);
    if (isThere) return `In force after ${((performance.now() - startedAtMs) / 1_000).toFixed(2)} s.`;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  return 'Saved. It is not in force yet: another rule may come before it. Explain shows which.';
}

const confirmEnd = ({ ruleId, name }: CallerLimit) =>
  ask({
    title: 'End this override?',
    detail: `“${name}” is deleted, and the rule it was made for applies again. History can undo it.`,
    submit: 'End it',
    async act() {
      await remove(`/rules/${ruleId}`);
      for (const dialog of document.querySelectorAll('dialog')) dialog.close();
      toast('The override has ended.');
    },
  });

function openList({ scope, id }: Who): void {
  openDialog({
    title: `Put ${id} on a list`,
    submit: 'Put it there',
    body: [
      choiceField({ name: 'list', label: 'List' }, [
        ['deny', 'deny: every request is refused'],
        ['allow', 'allow: no limit applies'],
      ]),
      untilField('expiresAt', 'Until'),
      textField({ name: 'reason', label: 'Reason', hint: 'For your colleagues' }),
    ],
    async act(form) {
      const entry = {
        list: textOf(form, 'list'),
        kind: scope,
        value: id,
        reason: textOf(form, 'reason'),
        expiresAt: momentOf(form, 'expiresAt'),
      };
      await post('/lists', entry);
      toast(`On the ${entry.list} list.`);
    },
  });
}

const confirmReset = ({ scope, id }: Who) =>
  ask({
    title: 'Reset the counters?',
    detail: `This resets all counters of ${id} in every region. It can use its whole limits again at once.`,
    submit: 'Reset',
    async act() {
      const { warnings } = await post<{ warnings: readonly string[] }>('/counters/reset', {
        scope,
        subject: id,
      });
      toast(warnings.length === 0 ? 'Forgotten.' : `Reset, but ${warnings.join('; ')}.`);
    },
  });

function openKey({ scope, id }: Who): void {
  openDialog({
    title: `A new key for ${id}`,
    submit: 'Create',
    body: [
      textField({ name: 'name', label: 'Name', hint: 'For people' }),
      untilField('expiresAt', 'Until', 90 * 86_400_000),
    ],
    async act(form) {
      const owner = scope === 'user' ? { userId: id } : { tenantId: id };
      const { key } = await post<{ key: string }>('/keys', {
        name: textOf(form, 'name'),
        ...owner,
        expiresAt: momentOf(form, 'expiresAt'),
      });
      setTimeout(() => showKey(key));
    },
  });
}

const showKey = (key: string) =>
  openDialog({
    title: 'The new key',
    submit: 'I have copied it',
    body: [
      h('p', {}, 'Weir shows it only now, and stores only its hash.'),
      h('code', { class: 'secret' }, key),
    ],
    act: async () => {},
  });
