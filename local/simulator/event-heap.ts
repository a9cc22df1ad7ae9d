// A binary heap of future events, by time. Events of the same moment run in the order in which they were added.

export interface Event {
  readonly atMs: number;
  readonly order: number;
  /** Undefined once the event was cancelled. */
  run: (() => void) | undefined;
}

const isBefore = (a: Event, b: Event) => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

export class EventHeap {
  readonly #events: Event[] = [];
  #order = 0;

  get size(): number {
    return this.#events.length;
  }

  get first(): Event | undefined {
    return this.#events[0];
  }

  add(atMs: number, run: () => void): Event {
    this.#order += 1;
    const event: Event = { atMs, order: this.#order, run };
    this.#rise(event);
    return event;
  }

  take(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first && last && first !== last) this.#sink(last);
    return first;
  }

  clear(): void {
    this.#events.length = 0;
  }

  #rise(event: Event): void {
    const events = this.#events;
    let place = events.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = events[parent] as Event;
      if (!isBefore(event, above)) break;
      events[place] = above;
      place = parent;
    }
    events[place] = event;
  }

  /** Moves the event down from the top, whose event was taken. */
  #sink(event: Event): void {
    const events = this.#events;
    const { length } = events;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= length) break;
      if (child + 1 < length && isBefore(events[child + 1] as Event, events[child] as Event)) child += 1;
      const below = events[child] as Event;
      if (!isBefore(below, event)) break;
      events[place] = below;
      place = child;
    }
    events[place] = event;
  }
}
