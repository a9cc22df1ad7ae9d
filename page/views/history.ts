// Lists changes: what was changed, by whom, the differences, and how to undo it.

import { ApiError, get, me, type Page, post } from '../api.ts';
import { ask } from '../dialog.ts';
import { button, type Child, empty, fill, h, link, toast } from '../dom.ts';
import { ago, type HistoryItem, kindOf, moment, nameOf } from '../format.ts';
import { type View, waiting } from './view.ts';

export const showHistory: View = async (main, { signal }) => {
  const list = h('div', {});
  fill(main, h('div', { class: 'head' }, h('h1', {}, 'History')), list);
  await showChanges(list, {}, signal);
};

type Filter = { readonly entity?: string; readonly entityId?: string };

/** Shows differences, and a button that undoes each change as a whole. */
export async function showChanges(
  list: HTMLElement,
  filter: Filter,
  signal: AbortSignal,
  cursor?: string,
): Promise<void> {
  const read = get<Page<HistoryItem>>('/history', { ...filter, limit: 30, cursor }, signal);
  const { items, nextCursor } = await waiting(list, 'Postgres', read);
  if (items.length === 0 && cursor === undefined) return fill(list, empty('Nothing has been changed yet.'));
  const again = () => {
    fill(list);
    void showChanges(list, filter, signal);
  };
  list.append(
    h(
      'ul',
      { class: 'changes' },
      items.map((change) => h('li', {}, entry(change, again))),
    ),
  );
  if (nextCursor === null) return;
  const more = button('Older', () => {
    more.remove();
    void showChanges(list, filter, signal, nextCursor);
  });
  list.append(more);
}

export const changeLine = (change: HistoryItem): Child => {
  const { at, actor, entity, entityId, action } = change;
  const isThere = entity === 'rules' && action !== 'deleted';
  return [
    h('b', {}, actor),
    ` ${action} ${kindOf(change)} `,
    isThere ? link(['rules', entityId], nameOf(change)) : h('i', {}, nameOf(change)),
    ' ',
    h('time', { datetime: at, title: moment(at), class: 'hint' }, ago(at)),
  ];
};

const entry = (change: HistoryItem, again: () => void): Child => [
  h('p', {}, changeLine(change), ' ', me.mayChange && undoButton(change, again)),
  differences(change),
];

const undoButton = (change: HistoryItem, again: () => void) =>
  button('Undo', () => confirmUndo(change, false, again), {
    class: 'quiet small',
    'aria-label': `Undo the change of ${nameOf(change)}`,
  });

function confirmUndo(change: HistoryItem, force: boolean, again: () => void): void {
  ask({
    title: force ? 'Something has changed since' : 'Undo this change?',
    detail: force
      ? 'Undo it anyway? That overwrites the later changes.'
      : `This restores everything that ${change.actor} ${change.action} in this change. You can undo that, too.`,
    submit: force ? 'Undo nevertheless' : 'Undo',
    async act() {
      try {
        await post(`/history/${change.changeId}/rollback`, { force });
        toast('Undone, and in force.');
        again();
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 'changed-since' || force) throw error;
        setTimeout(() => confirmUndo(change, true, again));
      }
    },
  });
}

const HIDDEN = ['id', 'revision', 'createdAt', 'updatedAt'];

function differences({ before, after, action }: HistoryItem): Child {
  if (action !== 'changed' || !before || !after) return null;
  const changed = Object.keys(after).filter(
    (field) => !HIDDEN.includes(field) && JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );
  return h(
    'dl',
    { class: 'differences' },
    changed.map((field) => [
      h('dt', {}, field),
      h('dd', {}, h('del', {}, textOf(before[field])), ' → ', h('ins', {}, textOf(after[field]))),
    ]),
  );
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing'));
