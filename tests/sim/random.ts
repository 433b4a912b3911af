/** @module A seeded source of chance: the same seed gives the same choices for ever. */

/** sfc32 over a splitmix of the seed. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(seed: number) {
    let state = seed >>> 0;
    const mix = () => {
      state = state + 0x9e3779b9 | 0;
      let z = state ^ state >>> 16;
      z = Math.imul(z, 0x21f0aaad);
      z ^= z >>> 15;
      z = Math.imul(z, 0x735a2d97);
      return z ^ z >>> 15;
    };
    [this.#a, this.#b, this.#c] = [mix(), mix(), mix()];
    for (let i = 0; i < 12; i++) this.next();
  }

  /** In [0, 1). */
  next(): number {
    const t = (this.#a + this.#b | 0) + this.#d | 0;
    this.#d = this.#d + 1 | 0;
    this.#a = this.#b ^ this.#b >>> 9;
    this.#b = this.#c + (this.#c << 3) | 0;
    this.#c = this.#c << 21 | this.#c >>> 11;
    this.#c = this.#c + t | 0;
    return (t >>> 0) / 4294967296;
  }

  /** A source of its own, so that more choices here change none there. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 4294967296));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** In [from, to). */
  between(from: number, to: number): number {
    return from + this.next() * (to - from);
  }

  /** A whole number from `from` to `to`, both possible. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  pick<T>(items: readonly T[]): T {
    const found = items[Math.floor(this.next() * items.length)];
    if (found === undefined) throw new Error("nothing to pick from");
    return found;
  }

  uuid(): string {
    const hex = (length: number) => {
      let text = "";
      while (text.length < length) text += this.int(0, 15).toString(16);
      return text;
    };
    return `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`;
  }
}
