/**
 * @module What `deno compile` is given: the program as a few bundled modules, so that a start reads little and an idle
 * process holds only what it uses, and nothing of the dependencies but the code that is reached.
 */

/** The modules that a process or a thread starts with. */
const ENTRIES = ["main.ts", "lib/lease/machine/worker_entry.ts", "lib/cas/hash_worker.ts"];
/** What modules load by URL at run time: as it stands in the sources, and from the stage's root, where the shared modules are. */
const LOADED_BY_URL: readonly (readonly [string, string])[] = [
  ['"./worker_entry.ts"', '"./lib/lease/machine/worker_entry.js"'],
  ['"./hash_worker.ts"', '"./lib/cas/hash_worker.js"'],
  ["`./migrations/${name}`", "`./lib/store/migrations/${name}`"],
];
/** Files that are read by URL. */
const FILES = ["lib/store/migrations"];
/** What is loaded by URL only when the program runs from its sources. */
const FROM_SOURCES = ['"../../main.ts"', '"../../deno.json"'];
/** Packages of npm have the timers of Node, which are objects, where our own code has those of the web. */
const NODE_TIMERS =
  `import { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "node:timers";\n`;

/** Paths, from the stage, of what `deno compile` does not find by itself. */
export const INCLUDES = [
  "lib/store/migrations",
  "lib/lease/machine/worker_entry.js",
  "lib/cas/hash_worker.js",
];
/** Path, from the stage, of the main module. */
export const MAIN = "main.js";

/** Fill the directory `stage` with the program of the checkout `root`. */
export async function makeStage(root: string, stage: string): Promise<void> {
  await bundle(root, stage);
  const met = new Map<string, number>();
  for (const path of await modules(stage)) {
    const text = await Deno.readTextFile(`${stage}/${path}`);
    await Deno.writeTextFile(`${stage}/${path}`, adapt(text, path, met));
  }
  for (const [from] of LOADED_BY_URL) {
    if (met.get(from) !== 1) {
      throw new Error(
        `${from} is loaded by URL in ${met.get(from) ?? 0} bundled modules, not in one`,
      );
    }
  }
  for (const path of FILES) await copyTree(`${root}${path}`, `${stage}/${path}`);
  const { unstable } = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  await Deno.writeTextFile(`${stage}/deno.json`, JSON.stringify({ unstable }));
}

/** The bundler is the one of the running Deno, whose version pins it. */
async function bundle(root: string, stage: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--frozen", "--code-splitting", "--outdir", stage, ...ENTRIES],
    cwd: root,
    stdin: "null",
  }).output();
  if (!success) throw new Error(`deno bundle failed: ${new TextDecoder().decode(stderr)}`);
}

/**
 * `text` of the bundled module at `path` (from the stage) as it must be in the stage. Counts in `met` what it loads by
 * URL. Throws when that is something that the stage does not hold.
 */
export function adapt(text: string, path: string, met: Map<string, number>): string {
  const urls = /new URL\(([^()]*), import\.meta\.url\)/g;
  const adapted = withoutPaths(text).replaceAll(urls, (whole, from: string) => {
    if (FROM_SOURCES.includes(from)) return whole;
    const to = LOADED_BY_URL.find(([known]) => known === from)?.[1];
    if (to === undefined || path.includes("/")) {
      throw new Error(
        `${path} loads ${from} by URL, which scripts/compile_stage.ts does not expect`,
      );
    }
    met.set(from, (met.get(from) ?? 0) + 1);
    return whole.replace(from, () => to);
  });
  return isOfUndici(text) ? NODE_TIMERS + adapted : adapted;
}

/** The bundler names each module by its path on this machine. */
function withoutPaths(text: string): string {
  return text.replaceAll(/[^\s"']*\/npm\/[^\s"'/]+\/(?=[^\s"']+\.[cm]?js\b)/g, "npm/");
}

function isOfUndici(text: string): boolean {
  return /^\/\/ .*\/undici\//m.test(text);
}

/** Paths, from `stage`, of all modules in it. */
async function modules(stage: string, under = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${stage}/${under}`)) {
    if (isDirectory) found.push(...await modules(stage, `${under}${name}/`));
    else found.push(under + name);
  }
  return found;
}

async function copyTree(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (isDirectory) await copyTree(`${from}/${name}`, `${to}/${name}`);
    else await Deno.copyFile(`${from}/${name}`, `${to}/${name}`);
  }
}
