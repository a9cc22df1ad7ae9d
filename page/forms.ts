// What all forms have in common: errors show at their fields, and a form is sent once at a time.
import { ApiError, type FieldError, messageOf } from './api.ts';
import { fill, h } from './dom.ts';

export interface Sending {
  readonly form: HTMLFormElement;
  /** The place for errors that belong to no field. */
  readonly trouble: HTMLElement;
  /** If it rejects, the form shows the error, at its fields. */
  readonly act: () => Promise<void>;
}

/** Buttons stay enabled meanwhile, because a disabled button loses the focus. */
export function sendOnSubmit({ form, trouble, act }: Sending): void {
  // The browser still checks the fields, but the form shows its findings like errors of the API.
  form.noValidate = true;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (form.ariaBusy === 'true') return;
    form.ariaBusy = 'true';
    try {
      checkFields(form);
      await act();
    } catch (error) {
      showTrouble(form, trouble, error);
    }
    form.ariaBusy = null;
  });
}

/** Throws if the API would refuse a field anyway: it has no number, a number out of bounds, or nothing at all. */
export function checkFields(form: HTMLFormElement): void {
  const errors = [...form.querySelectorAll<HTMLInputElement>('input:invalid')].map(
    ({ name, validationMessage }) => ({ pointer: `#/${name}`, detail: validationMessage }),
  );
  if (errors.length > 0) throw new ApiError(0, { title: 'Nothing was sent: see the marked fields', errors });
}

/** Shows each error at its field, if the form has it, and the others above the buttons. */
export function showTrouble(form: HTMLFormElement, place: HTMLElement, error: unknown): void {
  clearErrors(form);
  const errors = error instanceof ApiError ? error.errors : [];
  const elsewhere = errors.filter((one) => !showAtField(form, one));
  const lines = elsewhere.map(({ pointer, detail }) => `${pointer.replace(/^#\//, '')} ${detail}`);
  fill(place, h('p', { class: 'notice bad' }, [messageOf(error), ...lines].join('. ')));
  const wrong = form.querySelector<HTMLElement>('[aria-invalid]');
  // A closed part of the form cannot take the focus.
  const closed = wrong?.closest('details');
  if (closed) closed.open = true;
  wrong?.focus();
}

function clearErrors(form: HTMLFormElement): void {
  for (const old of form.querySelectorAll('.field-error')) old.remove();
  for (const field of form.querySelectorAll('[aria-invalid]')) {
    field.removeAttribute('aria-invalid');
    field.removeAttribute('aria-describedby');
  }
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
