/** @module Finding many patterns in a stream of bytes at once: an Aho-Corasick automaton. */

/**
 * Which patterns end where, for bytes that come one after another. Its states are those of a trie, 25 bytes each: a
 * secret of a few kilobytes has forms of a hundred thousand, which a table of transitions would make 100 MB.
 */
export class Matcher {
  /** The state before any byte. */
  static readonly START = 0;

  readonly #byte: Uint8Array;
  readonly #child: Int32Array;
  readonly #sibling: Int32Array;
  /** Where to go on when no child has the byte: the longest end of what was seen that starts a pattern. */
  readonly #back: Int32Array;
  readonly #depth: Int32Array;
  readonly #longest: Int32Array;
  readonly #fromStart = new Int32Array(256);
  #states = 1;

  constructor(patterns: readonly Uint8Array[]) {
    const most = 1 + patterns.reduce((sum, { length }) => sum + length, 0);
    this.#byte = new Uint8Array(most);
    this.#child = new Int32Array(most);
    this.#sibling = new Int32Array(most);
    this.#back = new Int32Array(most);
    this.#depth = new Int32Array(most);
    this.#longest = new Int32Array(most);
    for (const pattern of patterns) if (pattern.length > 0) this.#add(pattern);
    this.#link();
  }

  next(state: number, byte: number): number {
    for (let at = state; at !== Matcher.START; at = this.#back[at] ?? Matcher.START) {
      const child = this.#childOf(at, byte);
      if (child !== 0) return child;
    }
    return this.#fromStart[byte] ?? Matcher.START;
  }

  /** Bytes of the longest pattern that ends at the byte which led to `state`; 0: none does. */
  longest(state: number): number {
    return this.#longest[state] ?? 0;
  }

  /** Of the bytes that led to `state`, how many at the end may still become a pattern. */
  depth(state: number): number {
    return this.#depth[state] ?? 0;
  }

  /** The child of `state` for `byte`; 0: it has none. */
  #childOf(state: number, byte: number): number {
    if (state === Matcher.START) return this.#fromStart[byte] ?? 0;
    let child = this.#child[state] ?? 0;
    while (child !== 0 && this.#byte[child] !== byte) child = this.#sibling[child] ?? 0;
    return child;
  }

  #add(pattern: Uint8Array): void {
    let state = Matcher.START;
    for (const byte of pattern) {
      let child = this.#childOf(state, byte);
      if (child === 0) {
        child = this.#states++;
        this.#byte[child] = byte;
        this.#depth[child] = (this.#depth[state] ?? 0) + 1;
        this.#sibling[child] = this.#child[state] ?? 0;
        this.#child[state] = child;
        if (state === Matcher.START) this.#fromStart[byte] = child;
      }
      state = child;
    }
    this.#longest[state] = pattern.length;
  }

  /** Set where each state goes on, in the order of their depth. */
  #link(): void {
    const queue = new Int32Array(this.#states);
    let end = 1;
    for (let at = 0; at < end; at++) {
      const state = queue[at] ?? 0;
      const back = this.#back[state] ?? 0;
      this.#longest[state] = Math.max(this.#longest[state] ?? 0, this.#longest[back] ?? 0);
      let child = this.#child[state] ?? 0;
      for (; child !== 0; child = this.#sibling[child] ?? 0) {
        if (state !== Matcher.START) this.#back[child] = this.next(back, this.#byte[child] ?? 0);
        queue[end++] = child;
      }
    }
  }
}
