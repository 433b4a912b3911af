/** @module Where objects wait that are on their way into a bucket. */

import type { Leftovers } from "./contract.ts";
import { sweep } from "./disk_root.ts";
import { fileError } from "./files.ts";

/** Files that nobody has written to for so long were left by a crash: a large one takes its time to be sent. */
const OLD_MS = 24 * 60 * 60 * 1000;

/** A directory for them, which is gone, if it is nobody else's, when it is disposed. */
export interface UploadsDirectory extends AsyncDisposable {
  readonly path: string;
  /** Remove, or only count, what crashes left. */
  sweep(dryRun: boolean): Promise<Leftovers>;
}

/** A directory for them: in `tmp`, or one of its own. */
export async function prepareUploads(
  tmp: string | undefined,
  sweeps = true,
): Promise<UploadsDirectory> {
  try {
    if (tmp === undefined) {
      const path = await Deno.makeTempDir({ prefix: "sublet-uploads-" });
      return {
        path,
        sweep: (dryRun) => sweep(path, OLD_MS, { dryRun }),
        [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }).catch(() => {}),
      };
    }
    const path = `${tmp}/cas-uploads`;
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    if (sweeps) await sweep(path, OLD_MS);
    return {
      path,
      sweep: (dryRun) => sweep(path, OLD_MS, { dryRun }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  } catch (error) {
    throw fileError(error, "cannot make a directory for uploads", "unavailable");
  }
}
