// Dialogs in front of the view: a form, or "are you sure".
import { button, type Child, h } from './dom.ts';
import { sameIn } from './focus.ts';
import { sendOnSubmit } from './forms.ts';

export interface DialogOptions {
  readonly title: string;
  readonly body: Child;
  readonly submit: string;
  readonly isDestructive?: boolean;
  /** If it rejects, the dialog shows the error, at its fields. */
  readonly act: (form: HTMLFormElement) => Promise<void>;
}

/** Escape closes it, too. The focus then returns to where it was. */
export function openDialog({ title, body, submit, isDestructive, act }: DialogOptions): void {
  const trouble = h('div', { role: 'alert' });
  const form = h(
    'form',
    { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title),
    h('div', { class: 'fields' }, body),
    trouble,
    h(
      'div',
      { class: 'actions' },
      h('button', { class: isDestructive ? 'danger' : 'primary' }, submit),
      // Enter must not confirm an action that could do harm by accident.
      button('Cancel', () => dialog.close(), { autofocus: isDestructive }),
    ),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, form);
  const send = async () => {
    await act(form);
    dialog.close();
  };
  sendOnSubmit({ form, trouble, act: send });
  const opener = document.activeElement;
  dialog.addEventListener('close', () => {
    dialog.remove();
    // The browser returns the focus to the button, unless a live view has redrawn it meanwhile.
    if (opener && document.activeElement === document.body)
      sameIn(document.body, opener)?.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
}

export interface Question {
  readonly title: string;
  readonly detail: Child;
  readonly submit: string;
  readonly act: () => Promise<void>;
}

export const ask = ({ title, detail, submit, act }: Question): void =>
  openDialog({ title, body: h('p', {}, detail), submit, isDestructive: true, act });
