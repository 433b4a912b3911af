/** @module The store of blobs, as each process reaches it: slowly, not at all, or with writes that fail. */

import { type Cas, type Cid, cidOf } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import type { Process } from "./machine.ts";
import type { World } from "./world.ts";

/** How a machine is cut off from the store: its calls fail at once, or when they time out. */
export type Cut = "failing" | "hanging";

/** When a call that nobody answers is given up. */
const TIMEOUT_MS = 60_000;

/** The one store. */
export class Blobs {
  /** Blobs by address, and the world time of the last put of each. */
  readonly #held = new Map<string, { readonly bytes: Uint8Array; put: number }>();
  readonly cut = new Map<string, Cut>();
  /** Chance that a put fails: with nothing stored, as a short write leaves it, or with everything, and nobody told. */
  failing = 0;
  /** Sees every blob that is deleted. */
  onGone: (cid: string) => void = () => {};

  constructor(private readonly world: World) {}

  holds(cid: string): boolean {
    return this.#held.has(cid);
  }

  put(bytes: Uint8Array): Cid {
    const cid = cidOf(bytes);
    this.#held.set(cid, { bytes, put: this.world.now });
    return cid;
  }

  /** Delete what `named` lacks and nobody put for `graceMs` milliseconds, as a collector of garbage does; how many. */
  collect(named: ReadonlySet<string>, graceMs: number): number {
    let gone = 0;
    for (const [cid, { put }] of this.#held) {
      if (named.has(cid) || this.world.now - put < graceMs) continue;
      this.#held.delete(cid);
      this.onGone(cid);
      gone++;
    }
    return gone;
  }

  /** The store as `process` sees it. */
  for(process: Process): Cas {
    const call = <T>(what: string, make: () => T): Promise<T> => {
      const { name, world } = process.machine;
      const cut = this.cut.get(name);
      world.note(`cas ${name} ${what}${cut === undefined ? "" : ` ${cut}`}`);
      const ms = cut === "hanging" ? TIMEOUT_MS : process.random.between(0.5, 30);
      return process.port(`cas ${what}`, ms, () => {
        if (cut !== undefined) throw unavailable("the store does not answer");
        return make();
      });
    };
    const put = (data: Uint8Array): Cid => {
      const { random } = process;
      const fails = this.failing > 0 && random.chance(this.failing);
      if (fails && random.chance(0.5)) throw unavailable("the store wrote half of it, and failed");
      const cid = this.put(data.slice());
      if (fails) throw unavailable("the store could not sync it");
      return cid;
    };
    const never = () => Promise.reject(new Error("the simulation has no such call"));
    return {
      has: (cid) => call("has", () => this.holds(cid)),
      missing: (cids) => call("missing", () => cids.filter((cid) => !this.holds(cid))),
      put: (data) => call("put", () => put(data)),
      get: (cid) => call("get", () => this.#held.get(cid)?.bytes ?? null),
      putStream: never,
      getStream: never,
      putFile: never,
      getFile: never,
    };
  }
}

function unavailable(why: string): SubletError {
  return new SubletError("unavailable", why);
}
