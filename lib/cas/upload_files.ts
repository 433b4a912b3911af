/** @module What of uploads in parts is on the disk, so that a restart loses none: a file for each, and what it is for. */

import * as z from "zod";
import { messageOf } from "../home/mod.ts";
import type { Cid } from "./contract.ts";
import { fileError } from "./files.ts";
import { cidSchema } from "./http_wire.ts";

/** What an upload is for. */
const meta = z.object({
  cid: cidSchema,
  length: z.number().int().positive(),
  token: z.string(),
});

/** An upload that is on the disk. */
export interface StoredUpload {
  readonly id: string;
  readonly cid: Cid;
  readonly length: number;
  readonly token: string;
  /** When its last part came, Unix ms. */
  readonly touchedAt: number;
}

/** Names of uploads: 128 random bits. */
export const UPLOAD_ID = /^[0-9a-f]{32}$/;

/** A new name. */
export function newUploadId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** The directory of uploads. */
export class UploadFiles {
  constructor(readonly directory: string) {}

  /** Make the directory, unless it is there. */
  async make(): Promise<void> {
    try {
      await Deno.mkdir(this.directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw fileError(error, `cannot make ${this.directory}`, "unavailable");
    }
  }

  /** Where the bytes of `id` are. */
  path(id: string): string {
    return `${this.directory}/${id}.part`;
  }

  #meta(id: string): string {
    return `${this.directory}/${id}.json`;
  }

  /** Remember what `id` is for. Its file is there already: one that says nothing of itself is swept. */
  remember(id: string, { cid, length, token }: z.output<typeof meta>): void {
    try {
      Deno.writeTextFileSync(this.#meta(id), JSON.stringify({ cid, length, token }), {
        createNew: true,
        mode: 0o600,
      });
    } catch (error) {
      throw fileError(error, `cannot write in ${this.directory}`, "unavailable");
    }
  }

  /** Forget `id`, and its bytes, if they are still there. */
  async remove(id: string): Promise<void> {
    for (const path of [this.#meta(id), this.path(id)]) {
      await Deno.remove(path).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    }
  }

  /** The uploads that an earlier process left, without those that got no part for `maxAgeMs`; the rest is removed. */
  async sweep(now: number, maxAgeMs: number): Promise<StoredUpload[]> {
    const found: StoredUpload[] = [];
    try {
      const ids = new Set<string>();
      for await (const { name } of Deno.readDir(this.directory)) {
        const id = name.replace(/\.(part|json)$/, "");
        if (UPLOAD_ID.test(id)) ids.add(id);
      }
      for (const id of ids) {
        const upload = await this.#read(id);
        if (upload === null || now - upload.touchedAt > maxAgeMs) await this.remove(id);
        else found.push(upload);
      }
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw fileError(error, `cannot sweep ${this.directory}`, "unavailable");
    }
    return found;
  }

  async #read(id: string): Promise<StoredUpload | null> {
    try {
      const { cid, length, token } = meta.parse(
        JSON.parse(await Deno.readTextFile(this.#meta(id))),
      );
      const info = await Deno.lstat(this.path(id));
      if (!info.isFile) return null;
      return { id, cid: cid as Cid, length, token, touchedAt: info.mtime?.getTime() ?? 0 };
    } catch (error) {
      // Half of one, which a crash left: it is of no use. Anything else is the disk's fault.
      if (error instanceof Deno.errors.NotFound || !/os error/.test(messageOf(error))) return null;
      throw error;
    }
  }
}
