/** @module Virtual time: every timer, delivery and fault is an event of one queue, and one happens at a time. */

/** A rule was broken. */
export class Violation extends Error {
  constructor(readonly rule: string, what: string) {
    super(`${rule}: ${what}`);
    this.name = "Violation";
  }
}

/** More events than this in one virtual second are a loop that does not wait. */
const MOST_IN_SECOND = 4_000;

interface Event {
  readonly at: number;
  readonly order: number;
  run: (() => void) | null;
}

/** The queue of events. Times are milliseconds of the world, which no machine's clock need agree with. */
export class World {
  now = 0;
  readonly log: string[] = [];
  readonly violations: Violation[] = [];
  /** Transactions that are queued or run: until they are over, no time passes. */
  pending = 0;
  /** Called between events when something changed. */
  onStep: () => void = () => {};
  steps = 0;
  readonly #heap: Event[] = [];
  #order = 0;
  #inSecond = 0;

  /** Write a line of the event log. */
  note(text: string): void {
    this.log.push(`${this.now.toFixed(3)} ${text}`);
  }

  /** A rule was broken. The simulation ends at once. */
  broken(rule: string, what: string): void {
    this.note(`VIOLATION ${rule}: ${what}`);
    this.violations.push(new Violation(rule, what));
  }

  /** Run `run` at `at`. What is returned takes it back. */
  at(at: number, run: () => void): () => void {
    const event: Event = { at: Math.max(at, this.now), order: this.#order++, run };
    this.#push(event);
    return () => event.run = null;
  }

  /** Let everything go on that can without time passing. */
  async settle(): Promise<void> {
    do await turn(); while (this.pending > 0);
  }

  /** Let time pass until `end`, until `until` says so, or until a rule is broken; whether `until` did. */
  async run(end: number, until: () => boolean = () => false): Promise<boolean> {
    await this.settle();
    while (this.violations.length === 0) {
      if (until()) return true;
      const next = this.#heap[0];
      if (next === undefined || next.at > end) {
        this.now = end;
        return until();
      }
      this.#pop();
      if (next.run === null) continue;
      this.#inSecond = Math.floor(next.at / 1000) === Math.floor(this.now / 1000)
        ? this.#inSecond + 1
        : 0;
      if (this.#inSecond > MOST_IN_SECOND) {
        this.broken("nothing spins", `${this.#inSecond} events in one second`);
      }
      this.now = next.at;
      this.steps++;
      next.run();
      await this.settle();
      this.onStep();
    }
    return false;
  }

  /** Resolve after `ms` milliseconds of the world. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.now + ms, resolve));
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = at - 1 >> 1;
      const other = heap[parent];
      if (other === undefined || before(other, event)) break;
      heap[at] = other;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    while (true) {
      let child = 2 * at + 1;
      let smaller = heap[child];
      if (smaller === undefined) break;
      const right = heap[child + 1];
      if (right !== undefined && before(right, smaller)) {
        child++;
        smaller = right;
      }
      if (before(last, smaller)) break;
      heap[at] = smaller;
      at = child;
    }
    heap[at] = last;
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || a.at === b.at && a.order < b.order;
}

/** One turn of the event loop: every promise that can go on has done so. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
