import assert from "node:assert/strict";
import { checkVcs, type Repository, type Vcs } from "../../lib/vcs/mod.ts";
import { Bench, failure, Work } from "./kit.ts";

async function check(bench: Bench, vcs: Vcs, format: string): Promise<void> {
  const works = new Map<string, Work>();
  await checkVcs(vcs, {
    cas: bench.cas,
    scratch: bench.dir.path,
    async save(path, files) {
      const work = works.get(path) ?? await Work.make(path, format);
      works.set(path, work);
      return await work.commit({ ...files });
    },
  });
}

for (const format of ["sha1", "sha256"]) {
  Deno.test(`the git provider keeps the contract, on ${format} repositories`, async () => {
    await using bench = await Bench.make();
    await check(bench, bench.vcs, format);
  });
}

/** `repository` with some of its calls replaced. */
function broken(repository: Repository, calls: Partial<Repository>): Repository {
  return new Proxy(repository, {
    get(target, name) {
      const own = Reflect.get(calls, name);
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

Deno.test("the suite sees a provider that breaks the contract, rule by rule", async () => {
  await using bench = await Bench.make();
  const { vcs } = bench;
  const wrong: Vcs = {
    identity: (path) => vcs.identity(path),
    root: (path) => vcs.root(path),
    checks: () => vcs.checks(),
    init: (path, options) => vcs.init(path, options),
    clone: (url, path, credential) => vcs.clone(url, path, credential),
    prompt: () => "",
    open: async (path) =>
      broken(await vcs.open(path), {
        untracked: (_, names) => Promise.resolve([...names]),
        merge: () => Promise.resolve({ kind: "conflicts", conflicts: [] }),
        kept: () => Promise.resolve([]),
        receive: () => Promise.resolve([]),
      }),
    replica: async (path) =>
      broken(await vcs.replica(path), {
        discard: () => Promise.resolve(),
        has: (revisions) => Promise.resolve(new Set(revisions)),
        changed: () => Promise.resolve(false),
      }),
  };
  const { message } = await failure(check(bench, wrong, "sha1"));
  for (
    const rule of [
      /untracked tells the paths/,
      /never filled has nothing/,
      /listed until they are discarded/,
      /stores nothing/,
      /words for every passage/,
      /kept under a prefix/,
      /two that agree merge/,
      /told by path/,
      /saved versions come home/,
      /was put there from elsewhere is no work/,
      /whose head does not come/,
    ]
  ) assert.match(message, rule);
  assert.doesNotMatch(message, /history|the head is|a clone has/);
});
