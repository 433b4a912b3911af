/**
 * @module What a worker has of jobs that began: a file for each in its home, so that a later process of the same worker
 * finds what an earlier one left running, also of leases that the server has given to somebody else by then.
 */

import { join } from "node:path";
import { isError, openBeneath, removeBeneath, unsafeReason } from "../home/mod.ts";
import { lstatBeneath, mkdirBeneath } from "../home/mod.ts";

const WHAT = "what the worker began";
const TAG = /^[0-9a-f-]{8,64}$/;

/** A job that began, and whose end was not seen to. */
export interface Left {
  readonly lease: number;
  /** Carried by its processes. */
  readonly tag: string;
  /** Of the job, beneath the home. */
  readonly place: string;
}

/** The jobs that the worker `owner` of a home began. */
export class LeftJobs {
  readonly #home: string;
  readonly #dir: string;

  constructor(home: string, owner: string) {
    this.#home = home;
    this.#dir = `begun/${owner}`;
  }

  /** The job of `lease` begins. */
  began({ lease, tag, place }: Left): void {
    mkdirBeneath(this.#home, this.#dir, { what: WHAT });
    Deno.writeTextFileSync(join(this.#home, this.#dir, String(lease)), `${tag}\n${place}`, {
      mode: 0o600,
    });
  }

  /** Nothing of the job of `lease` is left. Repeatable. */
  async over(lease: number): Promise<void> {
    await removeBeneath(this.#home, `${this.#dir}/${lease}`, { what: WHAT });
  }

  /** Every job that is not over. A file that says nothing is passed over. */
  async all(): Promise<Left[]> {
    if (lstatBeneath(this.#home, this.#dir, { what: WHAT }) === null) return [];
    const found: Left[] = [];
    for await (const { name, isFile } of Deno.readDir(join(this.#home, this.#dir))) {
      const left = isFile && /^[1-9]\d{0,15}$/.test(name) ? await this.#read(name) : null;
      if (left !== null) found.push(left);
    }
    return found.sort((a, b) => a.lease - b.lease);
  }

  async #read(name: string): Promise<Left | null> {
    try {
      await using file = await openBeneath(this.#home, `${this.#dir}/${name}`, { what: WHAT });
      const text = new TextDecoder().decode(await file.bytes(5000));
      const [tag = "", place = ""] = text.split("\n");
      const sound = TAG.test(tag) && unsafeReason(place) === null;
      return sound ? { lease: Number(name), tag, place } : null;
    } catch (error) {
      if (isError(error, "not_found", "unsafe_path", "too_large")) return null;
      throw error;
    }
  }
}
