/** @module The compiled file for tests: made once, where a toolchain is at hand. */

/** Its path, or why there is none. */
export interface Compiled {
  readonly path: string | null;
  readonly skipped: string | null;
}

/**
 * Compile this checkout for this machine with the toolchain in `SUBLET_TEST_TOOLCHAIN` (a directory with `deno` and
 * `denort-TARGET`), into a directory named after the sources, so that tests share one file.
 */
export async function compiledFile(): Promise<Compiled> {
  const toolchain = Deno.env.get("SUBLET_TEST_TOOLCHAIN");
  if (toolchain === undefined) {
    return { path: null, skipped: "SUBLET_TEST_TOOLCHAIN names no directory with deno and denort" };
  }
  const root = new URL("../..", import.meta.url).pathname;
  const out = `${root}.cache/compiled`;
  const path = `${out}/sublet-${Deno.build.target}`;
  if (
    Math.max(await newest(`${root}lib`), await newest(`${root}scripts`)) >
      await Deno.stat(path).then((info) => info.mtime?.getTime() ?? 0, () => 0)
  ) {
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", `${root}scripts/compile.ts`, "--out", out],
      env: { DENORT_DIR: toolchain },
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  }
  return { path, skipped: null };
}

/** When the newest file beneath `dir` was changed, in milliseconds since 1970. */
async function newest(dir: string): Promise<number> {
  let found = 0;
  for await (const entry of Deno.readDir(dir)) {
    const path = `${dir}/${entry.name}`;
    const at = entry.isDirectory
      ? await newest(path)
      : (await Deno.stat(path)).mtime?.getTime() ?? 0;
    found = Math.max(found, at);
  }
  return found;
}
