/** @module Where objects wait that are on their way into a bucket. */

import { sweep } from "./disk_root.ts";
import { fileError } from "./files.ts";

/** Files that nobody has written to for so long were left by a crash: a large one takes its time to be sent. */
const OLD_MS = 24 * 60 * 60 * 1000;

/** A directory for them: in `tmp`, or one of its own that is gone when it is disposed. */
export async function prepareUploads(
  tmp: string | undefined,
): Promise<{ readonly path: string } & AsyncDisposable> {
  try {
    if (tmp === undefined) {
      const path = await Deno.makeTempDir({ prefix: "sublet-uploads-" });
      return {
        path,
        [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }).catch(() => {}),
      };
    }
    const path = `${tmp}/cas-uploads`;
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    await sweep(path, OLD_MS);
    return { path, [Symbol.asyncDispose]: () => Promise.resolve() };
  } catch (error) {
    throw fileError(error, "cannot make a directory for uploads", "unavailable");
  }
}
