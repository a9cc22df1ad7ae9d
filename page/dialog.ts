// Questions that stand in front of the view: a form, or "are you sure".
import { ApiError, type FieldError, messageOf } from './api.ts';
import { button, type Child, fill, h } from './dom.ts';

export interface DialogOptions {
  readonly title: string;
  readonly body: Child;
  readonly submit: string;
  readonly isDestructive?: boolean;
  /** What it rejects with is shown in the dialog, at its fields. */
  readonly act: (form: HTMLFormElement) => Promise<void>;
}

/** Closed by Escape, too; the focus goes back to where it was. */
export function openDialog({ title, body, submit, isDestructive, act }: DialogOptions): void {
  const trouble = h('div', { role: 'alert' });
  const confirm = h('button', { class: isDestructive ? 'danger' : 'primary' }, submit);
  const form = h(
    'form',
    { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title),
    h('div', { class: 'fields' }, body),
    trouble,
    h(
      'div',
      { class: 'actions' },
      confirm,
      button('Cancel', () => dialog.close()),
    ),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, form);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      await act(form);
      dialog.close();
    } catch (error) {
      showTrouble(form, trouble, error);
    }
    confirm.disabled = false;
  });
  dialog.addEventListener('close', () => dialog.remove());
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

/** Each error at its field, if the form has it; the others above the buttons. */
export function showTrouble(form: HTMLFormElement, place: HTMLElement, error: unknown): void {
  for (const old of form.querySelectorAll('.field-error')) old.remove();
  for (const field of form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
  const errors = error instanceof ApiError ? error.errors : [];
  const elsewhere = errors.filter((one) => !showAtField(form, one));
  const lines = elsewhere.map(({ pointer, detail }) => `${pointer.replace(/^#\//, '')} ${detail}`);
  fill(place, h('p', { class: 'notice bad' }, [messageOf(error), ...lines].join('. ')));
  form.querySelector<HTMLElement>('[aria-invalid]')?.focus();
}

function showAtField(form: HTMLFormElement, { pointer, detail }: FieldError): boolean {
  const [name = ''] = pointer.replace(/^#\//, '').split('/');
  const field = form.elements.namedItem(name);
  if (!(field instanceof HTMLElement)) return false;
  const id = `error-${name}`;
  field.setAttribute('aria-invalid', 'true');
  field.setAttribute('aria-describedby', id);
  field.after(h('span', { class: 'field-error', id }, detail));
  return true;
}
