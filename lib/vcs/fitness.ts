/** @module Whether a checkout is what was saved: parts that git keeps elsewhere (submodules, Git LFS) are not carried. */

import { SubletError } from "../home/mod.ts";
import { indexEntries } from "./index_file.ts";
import type { ObjectFormat } from "./names.ts";

/** What a campaign lets through: `[plugins.vcs]` of its file. */
export interface Tolerance {
  /** A submodule's directory is refused, or left empty. */
  readonly submodules: "refuse" | "empty";
  /** A Git LFS pointer in place of its file is refused, or left. */
  readonly lfs: "refuse" | "pointers";
}

const POINTER = "version https://git-lfs.github.com/spec/v1\n";
/** A pointer file is smaller than this, says the LFS specification, and its three lines are longer than that. */
const POINTER_BYTES = { most: 1024, least: 120 };

async function startsWith(path: string, text: string): Promise<boolean> {
  const { isFile } = await Deno.lstat(path);
  if (!isFile) return false;
  return (await Deno.readTextFile(path)).startsWith(text);
}

async function saysLfs(path: string): Promise<boolean> {
  const { isFile } = await Deno.lstat(path);
  return isFile && /\bfilter=lfs\b/.test(await Deno.readTextFile(path));
}

/** Throw `failed` when the files of `revision` at `path`, whose index is at `indexPath`, are not what was saved. */
export async function judgeCheckout(
  revision: string,
  path: string,
  indexPath: string,
  format: ObjectFormat,
  tolerance: Tolerance,
): Promise<void> {
  const small: string[] = [];
  const attributes: string[] = [];
  for (const entry of indexEntries(await Deno.readFile(indexPath), format)) {
    if (entry.submodule && tolerance.submodules === "refuse") {
      throw new SubletError(
        "failed",
        `commit ${revision} has a submodule at ${
          JSON.stringify(entry.path)
        }, whose files are not ` +
          'carried. Add its files to the repository, or set submodules = "empty" in [plugins.vcs] ' +
          "of the campaign's file to go on without them",
      );
    }
    if (/(?:^|\/)\.gitattributes$/.test(entry.path)) attributes.push(entry.path);
    else if (entry.size >= POINTER_BYTES.least && entry.size < POINTER_BYTES.most) {
      small.push(entry.path);
    }
  }
  if (tolerance.lfs === "pointers" || attributes.length === 0) return;
  const uses = await Promise.all(attributes.map((name) => saysLfs(`${path}/${name}`)));
  if (!uses.includes(true)) return;
  for (const name of small) {
    if (!await startsWith(`${path}/${name}`, POINTER)) continue;
    throw new SubletError(
      "failed",
      `commit ${revision} keeps ${
        JSON.stringify(name)
      } in Git LFS, whose files are not carried. Make it a linked ` +
        'input, or set lfs = "pointers" in [plugins.vcs] of the campaign\'s file to go on with its pointer',
    );
  }
}
