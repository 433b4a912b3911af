/** @module One path of a shared workspace: what is there, and putting a file there without following a link. */

import { type Cas, type Cid, cidOfDigest, createHasher, sameBlob } from "../cas/mod.ts";
import {
  isError,
  lstatBeneath,
  openBeneath,
  removeBeneath,
  SubletError,
  unsafeReason,
  writeBeneath,
} from "../home/mod.ts";

/** What is at a path. `blocked`: something that is no regular file, there or above it. */
export type PathState =
  | { readonly kind: "nothing" | "blocked" }
  | { readonly kind: "file"; readonly blob: Cid };

const WHAT = "workspace of the report";
const NEW_MODE = 0o644;

/** A path beneath a workspace's root. */
export class WorkspacePath {
  readonly path: string;
  readonly #root: string;
  readonly #cas: Cas;

  constructor(root: string, path: string, cas: Cas) {
    this.#root = root;
    this.path = path;
    this.#cas = cas;
  }

  /** What is there now. A file is read. */
  async state(): Promise<PathState> {
    try {
      const info = lstatBeneath(this.#root, this.path, { what: WHAT });
      if (info === null) return { kind: "nothing" };
      if (!info.isFile) return { kind: "blocked" };
      await using file = await openBeneath(this.#root, this.path, { what: WHAT });
      const hasher = createHasher();
      for await (const chunk of file.stream()) hasher.update(chunk);
      return { kind: "file", blob: cidOfDigest(hasher.digest()) };
    } catch (error) {
      if (isError(error, "unsafe_path")) return { kind: "blocked" };
      if (isError(error, "not_found")) return { kind: "nothing" };
      throw error;
    }
  }

  /** Write the blob there: over what is there, or else only where nothing is. False: something came in the way. */
  async write(blob: Cid, replace: boolean): Promise<boolean> {
    const body = await this.#cas.getStream(blob);
    if (body === null) {
      throw new SubletError("not_found", `the store lost ${blob}, the agent's ${this.path}`);
    }
    try {
      const mode = lstatBeneath(this.#root, this.path, { what: WHAT })?.mode ?? null;
      await writeBeneath(this.#root, this.path, body.stream, {
        what: WHAT,
        mode: mode === null ? NEW_MODE : mode & 0o777,
        directoryMode: 0o755,
        sync: true,
        replace,
      });
      return true;
    } catch (error) {
      await body.stream.cancel().catch(() => {});
      if (isError(error, "unsafe_path", "conflict")) return false;
      throw error;
    }
  }

  async remove(): Promise<void> {
    await removeBeneath(this.#root, this.path, { what: WHAT });
  }

  /** The path with `suffix` after its name, or null when that is no safe path. */
  beside(suffix: string): WorkspacePath | null {
    const path = `${this.path}.${suffix}`;
    return unsafeReason(path) === null ? new WorkspacePath(this.#root, path, this.#cas) : null;
  }
}

/** Whether two files, or their absence, are the same. */
export function sameFile(a: Cid | null, b: Cid | null): boolean {
  return a === null || b === null ? a === b : sameBlob(a, b);
}
