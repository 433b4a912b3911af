/** @module Tests of linked inputs in evaluations. */

import assert from "node:assert/strict";
import { type Cid, cidOf, type Entry, putManifest, storeTree } from "../../lib/cas/mod.ts";
import { until } from "../kit/mod.ts";
import { Bench, Control, reportOf } from "./run_kit.ts";

/** A bench with a tree `data/{train,deep/test}` in its store; its manifest's address. */
async function withData(): Promise<{ bench: Bench; data: Cid }> {
  const bench = await Bench.make();
  const root = bench.dir.join("data");
  await Deno.mkdir(`${root}/deep`, { recursive: true });
  await Deno.writeTextFile(`${root}/train`, "41\n");
  await Deno.writeTextFile(`${root}/deep/test`, "1\n");
  await Deno.symlink("train", `${root}/alias`);
  const { manifest } = await storeTree(bench.cas, root);
  return { bench, data: manifest };
}

const SUM = "echo METRIC score=$(($(cat data/train) + $(cat data/deep/test)))";

Deno.test("links are in the checkout, read-only, and links among them lead where they did", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const report = await bench.report(
    `${SUM}; stat -c 'METRIC mode=%a' data/train; readlink data/alias`,
    { artifact: bench.source({ links: { data } }) },
  );
  assert.equal(report.samples[0]?.error, null);
  assert.deepEqual(report.samples[0]?.metrics, { score: 42, mode: 444 });
  assert.match(await bench.log(report), /\ntrain\n$/);
});

Deno.test("a manifest whose paths go from the checkout's root is put there", async () => {
  const { bench } = await withData();
  await using _ = bench;
  const file = async (path: string, text: string): Promise<Entry> => {
    const bytes = new TextEncoder().encode(text);
    return { path, mode: 0o644, size: bytes.length, blob: await bench.cas.put(bytes) };
  };
  const tree = await putManifest(bench.cas, [
    await file("data/train", "41"),
    await file("data/deep/test", "1"),
  ]);
  const model = await putManifest(bench.cas, [await file("model.bin", "7")]);
  const report = await bench.report(`${SUM}; echo METRIC model=$(cat model.bin)`, {
    artifact: bench.source({ links: { data: tree, "model.bin": model } }),
  });
  assert.deepEqual(report.samples[0]?.metrics, { score: 42, model: 7 });
});

Deno.test("what the commit has already is not replaced by a link", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  await Deno.mkdir(bench.dir.join("record/data"));
  const revision = await bench.commit({ "data/train": "99\n" });
  const report = await bench.report(SUM, { artifact: bench.source({ revision, links: { data } }) });
  assert.deepEqual(report.samples[0]?.metrics, { score: 100 });
});

Deno.test("a run that changes its inputs has failed, and the next one gets them as they were", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const artifact = bench.source({ links: { data } });
  const changing = await bench.report(
    "chmod u+w data/train; echo 1 > data/train; rm data/deep/test; echo METRIC score=1",
    { artifact },
  );
  assert.equal(
    changing.samples[0]?.error,
    "it changed its linked inputs, which are shared and read-only: data/deep/test, data/train",
  );
  assert.deepEqual(changing.samples[0]?.metrics, { score: 1 });
  const next = await bench.report(SUM, { artifact }, new Control(8));
  assert.deepEqual([next.samples[0]?.error, next.samples[0]?.metrics], [null, { score: 42 }]);
  assert.deepEqual(bench.events.map(({ event }) => event), ["inputs.changed", "inputs.rebuilt"]);
  assert.deepEqual(bench.events[1]?.fields.blobs, [cidOf(new TextEncoder().encode("41\n"))]);
});

Deno.test("an input that is changed under a failing run is told beside the failure", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const report = await bench.report("rm -f data/train; exit 2", {
    artifact: bench.source({ links: { data } }),
  });
  assert.match(report.samples[0]?.error ?? "", /^exit 2; it changed its linked inputs/);
});

Deno.test("a run that deleted its own checkout is told so", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const artifact = bench.source({ links: { data } });
  const report = await bench.report('echo METRIC score=1; rm -rf "$PWD"', { artifact });
  assert.equal(
    report.samples[0]?.error,
    "it deleted its own checkout, with its linked inputs",
  );
});

Deno.test("a run whose inputs were changed beside another is lost, and one that replaced its own has failed", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const artifact = bench.source({ links: { data } });
  const go = bench.dir.join("go");
  const wait = `touch ${go}.$1; while ! [ -e ${go} ]; do sleep 0.02; done;`;
  const run = (lease: number, script: string) =>
    bench.runner.run(
      bench.job("", {
        artifact,
        command: ["/bin/sh", "-c", `${wait} ${script}`, "sh", String(lease)],
      }),
      new Control(lease),
    );
  const innocent = run(7, `while ! [ -e ${go}.done ]; do sleep 0.02; done; ${SUM}`);
  const writing = run(8, `chmod u+w data/train; echo 1 > data/train; touch ${go}.done; ${SUM}`);
  const removing = run(9, `rm -f data/train; echo 40 >data/train; ${SUM}`);
  await until("all run", async () => {
    const found = await Promise.all([7, 8, 9].map((lease) => exists(`${go}.${lease}`)));
    return found.every(Boolean);
  });
  await Deno.writeTextFile(go, "");
  const beside = await Promise.allSettled([innocent, writing]);
  for (const ended of beside) {
    assert.ok(ended.status === "rejected");
    assert.match(String(ended.reason), /inputs that it shares were changed while other jobs ran/);
  }
  assert.match(reportOf(await removing).samples[0]?.error ?? "", /^it changed its linked inputs/);
  const next = await bench.report(SUM, { artifact }, new Control(10));
  assert.deepEqual(next.samples[0]?.metrics, { score: 42 });
});

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

Deno.test("a manifest or a blob that the store lacks is a sample with the reason", async () => {
  const { bench } = await withData();
  await using _ = bench;
  const lacking = cidOf(new Uint8Array([1]));
  const gone = await putManifest(bench.cas, [{ path: "x", mode: 0o644, size: 1, blob: lacking }]);
  const report = await bench.report("true", { artifact: bench.source({ links: { data: gone } }) });
  assert.match(report.samples[0]?.error ?? "", new RegExp(`could not run: .*${lacking}`));
  const raw = await bench.report(
    "true",
    { artifact: bench.source({ links: { data: lacking } }) },
    new Control(8),
  );
  assert.match(raw.samples[0]?.error ?? "", /could not run: .*no address of a manifest/);
});

Deno.test("a link is not put through a link that the commit holds", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  await Deno.mkdir(bench.dir.join("outside"));
  await Deno.symlink(bench.dir.join("outside"), bench.dir.join("record/data"));
  const revision = await bench.commit({});
  const report = await bench.report(SUM, { artifact: bench.source({ revision, links: { data } }) });
  assert.match(report.samples[0]?.error ?? "", /could not run: link "data": .*symbolic link/);
  assert.deepEqual([...Deno.readDirSync(bench.dir.join("outside"))], []);
});

for (const name of ["../x", "/tmp/x", ".git", "a//b"]) {
  Deno.test(`a job with the link ${JSON.stringify(name)} is refused`, async () => {
    const { bench, data } = await withData();
    await using _ = bench;
    const job = bench.job("true", { artifact: bench.source({ links: { [name]: data } }) });
    const outcome = await bench.runner.run(job, new Control());
    assert.ok(reportOf(outcome).samples[0]?.error?.includes(name), JSON.stringify(outcome));
  });
}

Deno.test("inputs that no job uses any more can be evicted", async () => {
  const { bench, data } = await withData();
  await using _ = bench;
  const job = bench.job(SUM, { artifact: bench.source({ links: { data } }) });
  await bench.runner.run(job, new Control());
  assert.equal(await bench.runner.evictInputs(100), 0);
  await bench.runner.cleanup(job, 7);
  assert.equal(await bench.runner.evictInputs(100), 5);
});
