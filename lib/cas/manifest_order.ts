/** @module The order of a manifest's paths. */

import { compareBytes } from "./drisl.ts";
import { wrongManifest } from "./manifest.ts";

/** Checks entry by entry that paths are in order, unique, and that none is a directory of another. */
export class EntryOrder {
  readonly #text = new TextEncoder();
  #before = "";
  /** Paths that the last one starts with, each the start of the next: others cannot be directories of what follows. */
  readonly #above: string[] = [];

  /** The next path. Throws `integrity` when it may not follow. */
  add(path: string): void {
    if (this.#above.length > 0 && this.#compare(this.#before, path) >= 0) {
      throw wrongManifest(`its paths are not in order, or repeat, at ${JSON.stringify(path)}`);
    }
    this.#before = path;
    const above = this.#above;
    while (above.length > 0 && !path.startsWith(above.at(-1) ?? "")) above.pop();
    if (above.some(({ length }) => path[length] === "/")) {
      throw wrongManifest(
        `${JSON.stringify(path)} is beneath another entry that is no directory`,
      );
    }
    above.push(path);
  }

  #compare(a: string, b: string): number {
    // Of one prefix, the units of UTF-16 sort as the bytes of UTF-8 do, unless one of them is half a pair.
    const length = Math.min(a.length, b.length);
    for (let at = 0; at < length; at++) {
      const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)];
      if (x === y) continue;
      if (x < 0xd800 && y < 0xd800) return x - y;
      return compareBytes(this.#text.encode(a), this.#text.encode(b));
    }
    return a.length - b.length;
  }
}
