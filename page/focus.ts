// Keeps the focus where a keyboard user has put it, although views redraw their parts.

/** The name by which a person recognizes a button, link or field. */
const nameOf = (element: Element): string =>
  ['name', 'href', 'aria-label'].map((name) => element.getAttribute(name)).find(Boolean) ??
  element.textContent;

/** The element that has replaced a former one. */
export const sameIn = (place: Element, former: Element): HTMLElement | undefined =>
  [...place.querySelectorAll<HTMLElement>(former.localName)].find((one) => nameOf(one) === nameOf(former));

/** Runs `draw`, which replaces the content of `place`. */
export function keepFocus(place: Element, draw: () => void): void {
  const focused = document.activeElement;
  const isInside = focused !== null && focused !== place && place.contains(focused);
  draw();
  if (isInside) sameIn(place, focused)?.focus({ preventScroll: true });
}
