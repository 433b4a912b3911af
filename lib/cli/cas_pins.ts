/** @module Pins: blobs that are kept although nothing of the home names them. Each is a small file in the home. */

import { join } from "node:path";
import * as z from "zod";
import { type Cid, cidSchema, objectName } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";

const pin = z.object({ cid: cidSchema, reason: z.string(), at: z.number() });

/** A blob that is kept, with all that it names. */
export interface Pin {
  readonly cid: Cid;
  readonly reason: string;
  /** Unix ms. */
  readonly at: number;
}

/** The pins of a home. */
export class Pins {
  readonly #directory: string;

  /** Those of the home whose directory is `root`. */
  constructor(root: string) {
    this.#directory = join(root, "pins");
  }

  #path(cid: Cid): string {
    return join(this.#directory, `${objectName(cid)}.json`);
  }

  /** Keep a blob; a pin that it has is replaced. */
  async add(added: Pin): Promise<void> {
    await Deno.mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const path = this.#path(added.cid);
    const temporary = `${path}.${crypto.randomUUID()}.tmp`;
    {
      using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
      const bytes = new TextEncoder().encode(JSON.stringify(added));
      for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
      await file.sync();
    }
    await Deno.rename(temporary, path);
    using directory = await Deno.open(this.#directory);
    await directory.sync();
  }

  /** Keep a blob no more. Throws `not_found` when it is not pinned. */
  async remove(cid: Cid): Promise<void> {
    try {
      await Deno.remove(this.#path(cid));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      throw new SubletError("not_found", `${cid} is not pinned: \`sublet cas pins\` lists what is`);
    }
  }

  /** All of them, the oldest first. Throws `config` for a file that is none. */
  async list(): Promise<Pin[]> {
    const found: Pin[] = [];
    try {
      for await (const { name } of Deno.readDir(this.#directory)) {
        if (name.endsWith(".json")) found.push(await this.#read(join(this.#directory, name)));
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    return found.sort((a, b) => a.at - b.at);
  }

  async #read(path: string): Promise<Pin> {
    try {
      return pin.parse(JSON.parse(await Deno.readTextFile(path)));
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
      throw new SubletError("config", `${path} is no pin: remove it, or write it again`, {
        cause: error,
      });
    }
  }
}
