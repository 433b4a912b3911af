import assert from "node:assert/strict";
import { openDisk } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { Bench, commandOf, failure, filesIn, git, type Work } from "./kit.ts";
import { exec } from "../kit/exec.ts";
import { until } from "../kit/mod.ts";

/** A record with some commits, and a replica of it that has them all but the last. */
async function setting(bench: Bench) {
  const { work, record } = await bench.record();
  const first = await work.commit({ "data.bin": crypto.getRandomValues(new Uint8Array(20_000)) });
  const second = await work.commit({ "b.txt": "two\n" });
  const ask = bench.asks(record);
  const supply = { cas: bench.cas, ask };
  const replica = await bench.replica();
  await replica.fetch(bench.cas, [first], ask);
  return { work, record, first, second, ask, supply, replica };
}

async function packsOf(path: string): Promise<string[]> {
  const names = await filesIn(`${path}/objects/pack`);
  return names.filter((name) => name.endsWith(".pack")).map((n) => `${path}/objects/pack/${n}`);
}

async function pinsOf(path: string): Promise<string[]> {
  return (await filesIn(`${path}/refs/sublet/fetched`)).sort();
}

async function damage(path: string, harm: (file: Deno.FsFile, size: number) => Promise<unknown>) {
  await Deno.chmod(path, 0o600);
  using file = await Deno.open(path, { read: true, write: true });
  await harm(file, (await file.stat()).size);
}

const harms: Record<string, (path: string) => Promise<unknown>> = {
  "a truncated pack": async (path) => {
    const [pack = ""] = await packsOf(path);
    await damage(pack, (file, size) => file.truncate(size - 300));
  },
  "an empty pack": async (path) => {
    const [pack = ""] = await packsOf(path);
    await damage(pack, (file) => file.truncate(0));
  },
  "a pack with wrong bytes in its middle": async (path) => {
    const [pack = ""] = await packsOf(path);
    await damage(pack, async (file, size) => {
      for (let at = 100; at < size - 100; at += 500) {
        await file.seek(at, Deno.SeekMode.Start);
        await file.write(new Uint8Array([0xff, 0xff, 0xff]));
      }
    });
  },
  "a pack that is gone": async (path) => await Deno.remove((await packsOf(path))[0] ?? ""),
  "an index of a pack that is cut short": async (path) => {
    const [pack = ""] = await packsOf(path);
    await damage(pack.replace(/pack$/, "idx"), (file, size) => file.truncate(size / 2));
  },
  "an empty HEAD": async (path) => await Deno.truncate(`${path}/HEAD`),
  "a HEAD that is gone": async (path) => await Deno.remove(`${path}/HEAD`),
  "a configuration of junk": async (path) => await Deno.writeTextFile(`${path}/config`, "\0junk"),
  "an object that is missing": async (path) => {
    const [pack = ""] = await packsOf(path);
    const aside = `${path}/aside.pack`;
    await Deno.rename(pack, aside);
    await Deno.remove(`${path}/objects/pack`, { recursive: true });
    await Deno.mkdir(`${path}/objects/pack`);
    const { code } = await exec({
      argv: ["git", "unpack-objects", "-q"],
      cwd: path,
      stdin: { path: aside },
    });
    assert.equal(code, 0);
    await Deno.remove(aside);
    const blob = await git(path, "rev-parse", `${(await pinsOf(path))[0]}:data.bin`);
    await Deno.remove(`${path}/objects/${blob.slice(0, 2)}/${blob.slice(2)}`);
  },
  "junk in a pin": async (path) => {
    for (const pin of await pinsOf(path)) {
      await Deno.writeTextFile(`${path}/refs/sublet/fetched/${pin}`, "junk");
    }
  },
  "pins that are empty": async (path) => {
    for (const pin of await pinsOf(path)) {
      await Deno.writeTextFile(`${path}/refs/sublet/fetched/${pin}`, "");
    }
  },
  "a pin of what is not there": async (path) => {
    const none = "f".repeat(40);
    await Deno.writeTextFile(`${path}/refs/sublet/fetched/${none}`, `${none}\n`);
  },
  "junk for packed pins": async (path) => {
    await Deno.writeTextFile(`${path}/packed-refs`, "\0junk\n<<<<");
  },
  "no objects directory": async (path) => await Deno.remove(`${path}/objects`, { recursive: true }),
  "no directory at all": async (path) => await Deno.remove(path, { recursive: true }),
};

for (const [name, harm] of Object.entries(harms)) {
  for (const restarted of [false, true]) {
    const when = restarted ? "an earlier process left" : "appears meanwhile";
    Deno.test(`${name}, which ${when}, is mended by the checkout that meets it`, async () => {
      await using bench = await Bench.make();
      const { work, first, second, supply, replica: before } = await setting(bench);
      await harm(before.path);
      if (restarted) bench.restarted();
      const replica = await bench.replica();
      const path = bench.dir.join("w");
      await replica.checkout(first, path, supply);
      assert.deepEqual(await filesIn(path), ["a.txt", "data.bin"]);
      await replica.checkout(second, path, supply);
      assert.deepEqual(await filesIn(path), ["a.txt", "b.txt", "data.bin"]);
      bench.restarted();
      const third = await work.commit({ "c.txt": "three\n" });
      await (await bench.replica()).checkout(third, path, supply);
      assert.deepEqual(await filesIn(path), ["a.txt", "b.txt", "c.txt", "data.bin"]);
      await git(replica.path, "fsck", "--full", "--strict");
      const rebuilt = bench.events.filter(({ event }) => event === "vcs.replica_rebuilt");
      assert.ok(rebuilt.length <= 1, "once");
    });
  }
}

Deno.test("a damaged SHA-256 replica is mended as one", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record("record", "sha256");
  const { revision } = await record.head();
  const supply = { cas: bench.cas, ask: bench.asks(record) };
  const { path } = await bench.replica();
  await (await bench.replica()).fetch(bench.cas, [revision], supply.ask);
  await harms["a configuration of junk"]?.(path);
  bench.restarted();
  await (await bench.replica()).checkout(revision, bench.dir.join("w"), supply);
  assert.deepEqual(await filesIn(bench.dir.join("w")), ["a.txt"]);
});

Deno.test("damage that a fetch meets is mended too", async () => {
  await using bench = await Bench.make();
  const { second, ask, replica } = await setting(bench);
  await harms["a truncated pack"]?.(replica.path);
  await replica.fetch(bench.cas, [second], ask);
  assert.deepEqual(await replica.has([second]), new Set([second]));
  assert.equal(bench.events.filter(({ event }) => event === "vcs.replica_rebuilt").length, 1);
});

Deno.test("many jobs that meet one damage rebuild the replica once", async () => {
  await using bench = await Bench.make();
  const { first, supply, replica, ask } = await setting(bench);
  await harms["a truncated pack"]?.(replica.path);
  const paths = Array.from({ length: 6 }, (_, i) => bench.dir.join(`w${i}`));
  await Promise.all(paths.map((path) => replica.checkout(first, path, supply)));
  for (const path of paths) assert.deepEqual(await filesIn(path), ["a.txt", "data.bin"]);
  assert.equal(bench.events.filter(({ event }) => event === "vcs.replica_rebuilt").length, 1);
  assert.equal(ask.asked.length, 2);
});

Deno.test("damage that a rebuild does not mend is reported, not mended for ever", async () => {
  await using bench = await Bench.make();
  const { first, supply, replica } = await setting(bench);
  bench.before = async (spec) => {
    if (commandOf(spec) === "read-tree") await harms["a truncated pack"]?.(replica.path);
  };
  const error = await failure(replica.checkout(first, bench.dir.join("w"), supply));
  assert.ok(isError(error, "failed"), String(error));
  assert.equal(bench.calls.filter((spec) => commandOf(spec) === "read-tree").length, 2);
});

Deno.test("a rebuild keeps the checkouts that jobs work in, and what only they committed", async () => {
  await using bench = await Bench.make();
  const { first, second, supply, replica } = await setting(bench);
  const [used, other] = [bench.dir.join("used"), bench.dir.join("other")];
  await replica.checkout(first, used, supply);
  await Deno.writeTextFile(`${used}/mine.txt`, "work\n");
  await git(used, "add", "mine.txt");
  await git(used, "commit", "-q", "-m", "Work that is nowhere else");
  await git(used, "branch", "mine");
  const mine = await git(used, "rev-parse", "HEAD");
  await harms["a truncated pack"]?.(replica.path);
  await replica.checkout(second, other, supply);
  assert.equal(await git(used, "rev-parse", "HEAD"), mine);
  assert.equal(await git(used, "status", "--porcelain"), "");
  assert.equal(await git(used, "log", "--format=%s", "-1", "mine"), "Work that is nowhere else");
  await git(used, "fsck", "--full");
});

Deno.test("a rebuild brings back what else was fetched, which a job may have built on", async () => {
  await using bench = await Bench.make();
  const { work, first, second, supply, replica, ask } = await setting(bench);
  await work.git("checkout", "-q", "-b", "aside", first);
  const aside = await work.commit({ "aside.txt": "a\n" });
  await replica.fetch(bench.cas, [aside], ask);
  const used = bench.dir.join("used");
  await replica.checkout(first, used, supply);
  await git(used, "merge", "-q", "--no-ff", "-m", "On top of what another saved", aside);
  await git(replica.path, "pack-refs", "--all");
  for (const pack of await packsOf(replica.path)) {
    await damage(pack, (file, size) => file.truncate(size - 100));
  }
  await replica.checkout(second, bench.dir.join("other"), supply);
  assert.equal(bench.events.filter(({ event }) => event === "vcs.replica_rebuilt").length, 1);
  await git(used, "fsck", "--full");
  const { work: sent, notes } = await replica.capture(bench.cas, used, first);
  assert.deepEqual(notes, []);
  assert.equal(sent?.head, await git(used, "rev-parse", "HEAD"));
});

Deno.test("a crash at any git call leaves no half replica", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revision = await work.commit({ "b.txt": "two\n" });
  const path = bench.dir.join("w");
  const supply = { cas: bench.cas, ask: bench.asks(record) };
  const crash = new Error("the process is gone");
  for (let call = 1;; call++) {
    let left = call;
    bench.before = (spec) => {
      const ours = `${spec.cwd} ${spec.argv.join(" ")}`.includes("/clones");
      if (ours && --left <= 0) throw crash;
    };
    const outcome = await (await bench.replica(`clones/1`)).checkout(revision, path, supply)
      .catch((error) => error);
    bench.before = () => {};
    bench.restarted();
    const replica = await bench.replica("clones/1");
    assert.deepEqual(
      await filesIn(bench.dir.join("clones")).then((all) =>
        all.filter((name) => name.includes("making"))
      ),
      [],
    );
    await replica.checkout(revision, path, supply);
    assert.deepEqual(await filesIn(path), ["a.txt", "b.txt"]);
    assert.equal(bench.events.filter(({ event }) => event === "vcs.replica_rebuilt").length, 0);
    if (outcome === undefined) break;
    assert.equal(outcome, crash);
    await replica.discard(path);
    await Deno.remove(replica.path, { recursive: true });
    bench.restarted();
  }
});

Deno.test("a worker that is killed at any call of git, which may run on, leaves nothing that harms", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const data = crypto.getRandomValues(new Uint8Array(60_000));
  const revision = await work.commit({ "b.txt": "two\n", "data.bin": data });
  const store = bench.dir.join("store");
  const cas = await openDisk({ path: store });
  const sent = await record.send(cas, [revision], []);
  assert.ok(sent);
  for (let call = 1, ended = false; !ended; call++) {
    const home = bench.dir.join(`home-${call}`);
    const child = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        new URL("./killed_child.ts", import.meta.url).pathname,
        ...[home, store, revision, sent.blob, `${call}`],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
    ended = child.signal !== "SIGKILL";
    if (ended) assert.equal(child.code, 0, new TextDecoder().decode(child.stderr));
    assert.ok(call < 20, "it never ends");
    const replica = await bench.restarted().replica(`${home}/clones/1`);
    const path = `${home}/runs/1/worktree`;
    await replica.checkout(revision, path, { cas, ask: () => Promise.resolve([sent.blob]) });
    assert.deepEqual(await filesIn(path), ["a.txt", "b.txt", "data.bin"]);
    assert.equal(await git(path, "status", "--porcelain"), "");
    await git(replica.path, "fsck", "--full");
    await replica.discard(path);
    assert.deepEqual(await replica.checkouts("/"), []);
  }
});

Deno.test("what a killed process left is swept: locks, temporary packs, unfinished checkouts", async () => {
  await using bench = await Bench.make();
  const { work, first, second, supply, replica } = await setting(bench);
  const root = replica.path;
  const kept = bench.dir.join("kept");
  await replica.checkout(first, kept, supply);
  const junk = [
    "packed-refs.lock",
    "config.lock",
    "HEAD.lock",
    `refs/sublet/fetched/${second}.lock`,
    "objects/pack/tmp_pack_x7Sg2",
    "objects/pack/tmp_idx_x7Sg2",
    "sublet-tmp/4c2b",
    "sublet-checkouts/0123456789abcdef01234567/base",
  ];
  await Deno.mkdir(`${root}/sublet-tmp`, { recursive: true });
  await Deno.mkdir(`${root}/sublet-checkouts/0123456789abcdef01234567`);
  for (const name of junk) await Deno.writeTextFile(`${root}/${name}`, "");
  await Deno.mkdir(`${root}.making-1234`);
  await work.git("status");
  bench.restarted();
  const again = await bench.replica();
  for (const name of [...junk.map((name) => `${root}/${name}`), `${root}.making-1234`]) {
    await assert.rejects(Deno.lstat(name), Deno.errors.NotFound, name);
  }
  await again.fetch(bench.cas, [second], supply.ask);
  assert.deepEqual(await again.checkouts(bench.dir.path), [kept]);
  assert.equal(await git(kept, "status", "--porcelain"), "", "a checkout in use is left alone");
});

Deno.test("a stale lock of one of our refs in the record is broken once it is old", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const lock = `${work.path}/.git/refs/sublet/kept.lock`;
  await Deno.mkdir(`${work.path}/.git/refs/sublet`);
  await Deno.writeTextFile(lock, "");
  await Deno.utime(lock, new Date(), new Date(Date.now() - 120_000));
  await record.keep(revision, "refs/sublet/kept");
  assert.equal(await work.git("rev-parse", "refs/sublet/kept"), revision);
});

Deno.test("with age, packs are rolled up and pins that others imply go", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const ask = bench.asks(record);
  const replica = await bench.replica();
  const revisions: string[] = [];
  await fastCommits(work, 210, revisions);
  await replica.fetch(bench.cas, [revisions[0] ?? ""], ask);
  for (let i = 1; i < 45; i++) await replica.fetch(bench.cas, [revisions[i] ?? ""], ask);
  await replica.fetch(bench.cas, revisions, ask);
  assert.ok((await packsOf(replica.path)).length > 40);
  await replica.discard(bench.dir.join("w"));
  assert.ok((await packsOf(replica.path)).length < 10);
  const pins = await git(replica.path, "for-each-ref", "--format=%(objectname)");
  assert.deepEqual(pins.split("\n"), [revisions.at(-1)]);
  bench.restarted();
  const again = await bench.replica();
  assert.deepEqual(await again.has(revisions), new Set(revisions));
  await git(replica.path, "fsck", "--full", "--strict");
  const quiet = await bench.commands(() => again.discard(bench.dir.join("w")));
  assert.deepEqual(quiet, []);
});

/** Many commits of one file, by one process. */
async function fastCommits(work: Work, count: number, revisions: string[]): Promise<void> {
  const { exec } = await import("../kit/exec.ts");
  let stream = "";
  for (let i = 0; i < count; i++) {
    stream +=
      `commit refs/heads/main\nmark :${i + 1}\ncommitter A <a@b> ${
        1_800_000_000 + i
      } +0000\ndata 1\nx\n` + (i === 0 ? "from refs/heads/main^0\n" : "") +
      `M 644 inline n.txt\ndata ${String(i).length}\n${i}\n`;
  }
  await exec({
    argv: ["git", "fast-import", "--quiet"],
    cwd: work.path,
    stdin: new TextEncoder().encode(stream),
  });
  revisions.push(...(await work.git("rev-list", "--reverse", "main")).split("\n").slice(-count));
}

Deno.test("a cancelled fetch ends at once, and the next one succeeds", async () => {
  await using bench = await Bench.make();
  const { second, ask, replica } = await setting(bench);
  const cancel = new AbortController();
  const slow = (revisions: readonly string[], have: readonly string[]) => {
    cancel.abort(new Error("revoked"));
    return ask(revisions, have);
  };
  const error = await failure(replica.fetch(bench.cas, [second], slow, cancel.signal));
  assert.equal(error.message, "revoked");
  await replica.fetch(bench.cas, [second], ask);
  assert.deepEqual(await replica.has([second]), new Set([second]));
});

Deno.test("a job that waits for another's first fetch stops waiting when it is cancelled", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const { revision } = await record.head();
  const replica = await bench.replica();
  const ask = bench.asks(record);
  const go = Promise.withResolvers<void>();
  let asking = false;
  const first = replica.fetch(bench.cas, [revision], async (revisions, have) => {
    asking = true;
    await go.promise;
    return await ask(revisions, have);
  });
  await until("the first asks", () => asking);
  const cancel = new AbortController();
  const second = failure(replica.fetch(bench.cas, [revision], ask, cancel.signal));
  cancel.abort(new Error("revoked"));
  assert.equal((await second).message, "revoked");
  go.resolve();
  await first;
  assert.equal(ask.asked.length, 1);
});
