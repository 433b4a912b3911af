/** @module Figures of the store without HTTP: hashing, storing a file, opening a large store. */

import { openDisk } from "../../lib/cas/mod.ts";
import { createHasher } from "../../lib/cas/blake3.ts";
import { hashFile } from "../../lib/cas/hash_file.ts";
import { endHashPool, startHashPool } from "../../lib/cas/hash_pool.ts";
import { compiledFile } from "../e2e/compiled.ts";
import { run, TempDir } from "../kit/mod.ts";
import { log, median, noise, writeFile } from "./cas_data.ts";
import type { Figure } from "./figure.ts";

const MIB = 1 << 20;
const GIB = 1 << 30;
const ROUNDS = 3;
const MAIN = new URL("../../main.ts", import.meta.url).pathname;

/** Milliseconds that `work` takes. */
async function timed(work: () => unknown): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The median of rounds of `work`, in MB/s (10^6) of `bytes`. */
async function speed(bytes: number, work: () => unknown, rounds = ROUNDS): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) times.push(await timed(work));
  return bytes / median(times) / 1000;
}

async function oneThread(): Promise<Figure> {
  const bytes = noise(256 * MIB, 5);
  const value = await speed(bytes.length, () => {
    const hasher = createHasher();
    for (let at = 0; at < bytes.length; at += MIB) hasher.update(bytes.subarray(at, at + MIB));
    hasher.digest();
  }, 5);
  const conditions = "256 MiB in memory, one thread, median of 5";
  return {
    name: "hashing",
    value: Math.round(value),
    unit: "MB/s",
    conditions,
    target: ">= 1,300",
  };
}

/** The program `b3sum`, from SUBLET_TEST_B3SUM or the PATH; null when there is none. */
async function b3sum(): Promise<string | null> {
  const program = Deno.env.get("SUBLET_TEST_B3SUM") || "b3sum";
  return await run([program, "--version"]).then(() => program, () => null);
}

async function files(): Promise<Figure[]> {
  const figures: Figure[] = [];
  await using directory = await TempDir.make("sublet-bench-");
  const file = directory.join("file");
  await writeFile(file, noise(64 * MIB, 11), GIB);
  const row = (name: string, value: number, unit: string, conditions: string, target?: string) =>
    figures.push({
      name,
      value: Math.round(value),
      unit,
      conditions,
      ...target === undefined ? {} : { target },
    });
  const pool = await startHashPool();
  row(
    "hashing a file",
    await speed(GIB, () => hashFile(file)),
    "MB/s",
    `1 GiB in the page cache, ${pool?.width ?? 0} threads, reading included`,
    ">= 2,000",
  );
  await endHashPool();
  const program = await b3sum();
  const native = program === null ? Infinity : await speed(GIB, () => run([program, file]));
  row(
    "b3sum",
    program === null ? NaN : native,
    "MB/s",
    program === null
      ? "not measured: neither on the PATH nor named by SUBLET_TEST_B3SUM"
      : "the same file",
  );
  const { path, skipped } = await compiledFile();
  const what = path === null ? `from source (${skipped})` : "compiled file, deno 2.6.10";
  const source = [Deno.execPath(), "run", "-A", "--no-check", "--no-prompt", MAIN];
  const put = (home: string) =>
    run([...(path === null ? source : [path]), "cas", "put", file], { env: { SUBLET_HOME: home } });
  // They take turns, so that what the disk does otherwise meets both.
  const [copies, puts]: [number[], number[]] = [[], []];
  for (let i = 0; i < ROUNDS; i++) {
    copies.push(
      await timed(() =>
        run(["dd", `if=${file}`, `of=${directory.join("copy")}`, "bs=1M", "conv=fsync"])
      ),
    );
    await Deno.remove(directory.join("copy"));
    const home = directory.join("home");
    puts.push(await timed(() => put(home)));
    await Deno.remove(home, { recursive: true });
  }
  const copy = GIB / median(copies) / 1000;
  row("dd with fsync", copy, "MB/s", "the same file");
  const mine = GIB / median(puts) / 1000;
  const note = `${what}: 1 GiB of noise into a local store, durable, with the start of the ` +
    `process, median of ${ROUNDS}`;
  row("sublet cas put", mine, "MB/s", note);
  row(
    "sublet cas put",
    100 * mine / Math.min(copy, native),
    "%",
    "of dd with fsync or b3sum, whichever is lower",
    ">= 70",
  );
  await writeFile(file, log(64 * MIB), GIB);
  row(
    "sublet cas put",
    GIB / await timed(() => put(directory.join("home"))) / 1000,
    "MB/s",
    `${what}: 1 GiB of log lines, compressed, once`,
  );
  return figures;
}

/** Opening a store does not look at what it holds. */
async function opening(): Promise<Figure> {
  const count = Number(Deno.env.get("SUBLET_BENCH_BLOBS") || 50_000);
  await using directory = await TempDir.make("sublet-bench-");
  const root = directory.join("store");
  await openDisk({ path: root });
  const frame = new Uint8Array(17);
  for (let i = 0; i < count; i++) {
    // Names like those of blobs: 52 letters.
    const name = i.toString(32).replaceAll(
      /[0-9a-v]/g,
      (digit) => "abcdefghijklmnopqrstuvwxyz234567"[parseInt(digit, 32)] ?? "",
    );
    const path = `${root}/blake3/${name.padStart(51, "a")}a`;
    Deno.mkdirSync(path);
    Deno.writeFileSync(`${path}/bytes.zst`, frame);
  }
  const times: number[] = [];
  for (let i = 0; i < 5; i++) times.push(await timed(() => openDisk({ path: root })));
  return {
    name: `opening a store of ${count.toLocaleString("en-GB")} blobs`,
    value: Math.round(median(times) * 10) / 10,
    unit: "ms",
    conditions: "median of 5; SUBLET_BENCH_BLOBS=1000000 for more of them",
    target: "< 1,000",
  };
}

/** What needs no service. */
export async function local(): Promise<Figure[]> {
  return [await oneThread(), ...await files(), await opening()];
}
