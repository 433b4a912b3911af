/** @module The store of blobs, as each process reaches it: slowly, or not at all. */

import { type Cas, type Cid, openMemory } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import type { Process } from "./machine.ts";

/** How a machine is cut off from the store: its calls fail at once, or when they time out. */
export type Cut = "failing" | "hanging";

/** When a call that nobody answers is given up. */
const TIMEOUT_MS = 60_000;

/** The one store. */
export class Blobs {
  readonly cas = openMemory();
  readonly cut = new Map<string, Cut>();

  /** The store as `process` sees it. */
  for(process: Process): Cas {
    const call = <T>(what: string, make: (cas: Cas) => Promise<T>): Promise<T> => {
      const { name, world } = process.machine;
      const cut = this.cut.get(name);
      world.note(`cas ${name} ${what}${cut === undefined ? "" : ` ${cut}`}`);
      const ms = cut === "hanging" ? TIMEOUT_MS : process.random.between(0.5, 30);
      return process.port(`cas ${what}`, ms, () => {
        if (cut !== undefined) throw new SubletError("unavailable", "the store does not answer");
        return make(this.cas);
      });
    };
    const never = () => Promise.reject(new Error("the simulation has no such call"));
    return {
      has: (cid) => call("has", (cas) => cas.has(cid)),
      missing: (cids) => call("missing", (cas) => cas.missing(cids)),
      put: (data) => call("put", (cas) => cas.put(data)),
      get: (cid: Cid) => call("get", (cas) => cas.get(cid)),
      putStream: never,
      getStream: never,
      putFile: never,
      getFile: never,
    };
  }
}
