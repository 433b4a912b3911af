/** @module Tests of log files: bounded, and never through a link. */

import assert from "node:assert/strict";
import { cidOf, openMemory } from "../../lib/cas/mod.ts";
import { isError, SubletError, systemClock } from "../../lib/home/mod.ts";
import { LOG_LIMITS, storeLogs, tailOf, watchOutput } from "../../lib/job/run_logs.ts";
import { TempDir } from "../kit/mod.ts";
import { Bench, Control } from "./run_kit.ts";

const MIB = 1024 * 1024;
const nothing = (_path: string) => false;

async function logs(
  files: Record<string, string>,
  limits = LOG_LIMITS,
  skip: (path: string) => boolean = nothing,
) {
  const dir = await TempDir.make();
  const cas = openMemory();
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(dir.join(path.split("/").slice(0, -1).join("/")), { recursive: true });
    await Deno.writeTextFile(dir.join(path), text);
  }
  const store = () => storeLogs(cas, dir.path, skip, limits);
  const text = async (path: string) => {
    const cid = (await store()).files[path];
    const bytes = cid === undefined ? null : await cas.get(cid);
    return bytes === null ? null : new TextDecoder().decode(bytes);
  };
  return { dir, cas, store, text };
}

Deno.test("every regular file goes to the store under its path", async () => {
  const { dir, store, text } = await logs({
    "a/eval.stdout": "out",
    "a/deep/er.txt": "",
    "b/x": "x",
  });
  await using _ = dir;
  assert.deepEqual(Object.keys((await store()).files), ["a/deep/er.txt", "a/eval.stdout", "b/x"]);
  assert.equal(await text("a/eval.stdout"), "out");
  assert.equal(await text("a/deep/er.txt"), "");
});

Deno.test("links and pipes are passed over, and nothing is read through them", async () => {
  const { dir, store } = await logs({ "a/x": "x" });
  await using _ = dir;
  await using outside = await TempDir.make();
  await Deno.writeTextFile(outside.join("secret"), "secret");
  await Deno.symlink(outside.join("secret"), dir.join("a/file-link"));
  await Deno.symlink(outside.path, dir.join("directory-link"));
  await new Deno.Command("mkfifo", { args: [dir.join("a/pipe")] }).output();
  assert.deepEqual(Object.keys((await store()).files), ["a/x"]);
});

Deno.test("a name that no report may hold is left out, and told", async () => {
  const { dir, store } = await logs({ "a/x": "x", "a/y\\z": "", "a/.git/config": "" });
  await using _ = dir;
  const { files, leftOut } = await store();
  assert.deepEqual(Object.keys(files), ["a/x"]);
  assert.equal(leftOut.count, 2);
  assert.match(leftOut.some.join("\n"), /backslash/);
});

Deno.test("what is skipped is not looked into", async () => {
  const { dir, store } = await logs(
    { "a/x": "x", "a/worktree/y": "y" },
    LOG_LIMITS,
    (path) => path === "a/worktree",
  );
  await using _ = dir;
  assert.deepEqual(Object.keys((await store()).files), ["a/x"]);
});

Deno.test("of a file over the limit its head and tail are kept, and what lacks is told in between", async () => {
  const { dir, text } = await logs(
    { "a/x": "start" + "-".repeat(1000) + "end" },
    { ...LOG_LIMITS, keepBytes: 10 },
  );
  await using _ = dir;
  assert.equal(await text("a/x"), "start\n[998 bytes are left out here: the log had 1008]\n--end");
});

Deno.test("a file at the limit is kept whole", async () => {
  for (const size of [10, MIB + 1]) {
    const { dir, text } = await logs({ "a/x": "y".repeat(size) }, {
      ...LOG_LIMITS,
      keepBytes: size,
    });
    await using _ = dir;
    assert.equal(await text("a/x"), "y".repeat(size));
  }
});

Deno.test("a file with a terabyte of holes costs no more than the limit", async () => {
  const { dir, cas, store } = await logs({ "a/x": "" });
  await using _ = dir;
  await Deno.truncate(dir.join("a/x"), 2 ** 40);
  const { files } = await store();
  const bytes = files["a/x"] === undefined ? null : await cas.get(files["a/x"]);
  assert.ok(bytes !== null && bytes.length < LOG_LIMITS.keepBytes + 100);
});

Deno.test("a flood of files is bounded, and the shallow ones are kept", async () => {
  const files = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`a/deep/${i}`, ""]));
  const { dir, store } = await logs({ ...files, "a/eval.stdout": "" }, {
    ...LOG_LIMITS,
    files: 10,
  });
  await using _ = dir;
  const stored = await store();
  assert.equal(Object.keys(stored.files).length, 10);
  assert.ok("a/eval.stdout" in stored.files);
  assert.equal(stored.leftOut.count, 21);
});

Deno.test("a store that fails is told", async () => {
  const { dir, cas, store } = await logs({ "a/x": "x" });
  await using _ = dir;
  cas.put = () => Promise.reject(new SubletError("unavailable", "no answer"));
  await assert.rejects(store(), (error) => isError(error, "unavailable"));
});

Deno.test("a file that the store finds too large is left out alone", async () => {
  const { dir, cas, store } = await logs({ "a/x": "x", "a/big": "y".repeat(2 * MIB) });
  await using _ = dir;
  cas.put = (data) => Promise.resolve(cidOf(data));
  cas.putStream = async (stream) => {
    await stream.cancel();
    throw new SubletError("too_large", "over the limit");
  };
  const { files, leftOut } = await store();
  assert.deepEqual(Object.keys(files), ["a/x"]);
  assert.deepEqual(leftOut.some, ["a/big: over the limit"]);
});

Deno.test("the tail of a file is its last bytes, and empty when there is no such file", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("x"), "hello world");
  assert.equal(await tailOf(dir.path, "x", 5), "world");
  assert.equal(await tailOf(dir.path, "x", 500), "hello world");
  assert.equal(await tailOf(dir.path, "absent", 5), "");
});

Deno.test("a watch ends with a message once a log is too large, and with nothing when it is aborted", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("eval.stdout"), "12345");
  const over = new AbortController();
  const paths = [dir.join("eval.stderr"), dir.join("eval.stdout")];
  assert.match(
    await watchOutput(paths, 4, systemClock, over.signal) ?? "",
    /more than 4 bytes to eval.stdout/,
  );
  const waiting = watchOutput(paths, 5, systemClock, over.signal);
  over.abort();
  assert.equal(await waiting, null);
});

Deno.test("a command whose output floods the disk is stopped, and its log is kept in part", async () => {
  await using bench = await Bench.make({ logs: { keepBytes: 1000, stopBytes: MIB } });
  const report = await bench.report("echo METRIC score=1; yes");
  assert.match(
    report.samples[0]?.error ?? "",
    /^wrote more than 1048576 bytes to eval.stdout, so it was stopped/,
  );
  assert.deepEqual(report.samples[0]?.metrics, { score: 1 });
  const text = await bench.log(report);
  assert.ok(
    text.startsWith("METRIC score=1\ny\ny\n") && /\ny\ny\n?$/.test(text),
    text.slice(0, 50),
  );
  assert.match(text, /bytes are left out here/);
  assert.ok(text.length < 1200);
});

Deno.test("a large output between two metrics is read to its end", async () => {
  await using bench = await Bench.make({ logs: { keepBytes: 1000 } });
  const report = await bench.report(
    "echo METRIC first=1; yes | head -c 5000000; echo METRIC score=2",
    { required: ["first", "score"] },
  );
  assert.equal(report.samples[0]?.error, null);
  assert.deepEqual(report.samples[0]?.metrics, { first: 1, score: 2 });
});

Deno.test("logs are stored once the store answers again", async () => {
  await using bench = await Bench.make();
  const { put } = bench.cas;
  let failures = 2;
  bench.cas.put = (data) =>
    failures-- > 0
      ? Promise.reject(new SubletError("unreachable", "no answer"))
      : put.call(bench.cas, data);
  const report = await bench.report("echo METRIC score=1");
  assert.equal(await bench.log(report), "METRIC score=1\n");
  assert.equal(bench.events[0]?.event, "evaluation.logs_not_stored");
});

Deno.test("a result is reported without its logs when the store refuses them, or the job must stop", async () => {
  for (const code of ["permission_denied", "unavailable"] as const) {
    await using bench = await Bench.make();
    const control = new Control();
    bench.cas.put = () => {
      if (code === "unavailable") control.revoke();
      return Promise.reject(new SubletError(code, "no"));
    };
    const report = await bench.report("echo METRIC score=1", {}, control);
    assert.deepEqual(report.samples[0]?.metrics, { score: 1 });
    assert.deepEqual(report.files, {});
    assert.equal(bench.events[0]?.event, "evaluation.logs_not_stored");
  }
});

Deno.test("a command that removes or replaces its own output has printed nothing", async () => {
  await using bench = await Bench.make();
  const secret = bench.dir.join("secret");
  await Deno.writeTextFile(secret, "METRIC score=666\n");
  const report = await bench.report(
    `echo METRIC score=1; rm ../eval.stdout; ln -s ${secret} ../eval.stdout`,
  );
  assert.match(report.samples[0]?.error ?? "", /no METRIC line for "score"/);
  assert.deepEqual(Object.keys(report.files), ["candidate-0/eval.stderr"]);
});
