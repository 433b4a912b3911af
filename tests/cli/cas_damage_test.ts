/** @module Damage in a SQLite file and in buckets, as an operator sees it: found, named, never served, and mended. */

import assert from "node:assert/strict";
import { type Cid, type Damage } from "../../lib/cas/mod.ts";
import { selfCommand } from "../../lib/cli/self.ts";
import { type BucketServer, needs, noise } from "../cas/bucket_kit.ts";
import { damageGcs, FAKE_GCS, makeBucket, startFakeGcs } from "../cas/gcs_kit.ts";
import { callS3, damageS3, MOTO, s3Env, startMoto } from "../cas/s3_kit.ts";
import { damageRows } from "../cas/sqlite_kit.ts";
import { TempDir } from "../kit/mod.ts";

const WAYS: Damage[] = [
  "flipped",
  "truncated",
  "empty",
  "another blob's",
  "followed by other bytes",
];

interface Kind {
  readonly table: string;
  readonly start?: () => Promise<BucketServer>;
  env(url: string): Record<string, string>;
  damage(home: string, url: string, cid: Cid, how: Damage): Promise<void>;
  readonly ignore: boolean;
  readonly suffix: string;
}

const KINDS: Record<string, Kind> = {
  sqlite: {
    table: 'provider = "sqlite"',
    env: () => ({}),
    damage: (home, _, cid, how) => damageRows(`${home}/store.sqlite`, cid, how),
    ignore: false,
    suffix: "",
  },
  s3: {
    table: 'provider = "s3"\nurl = "s3://damaged/p"',
    async start() {
      const server = await startMoto();
      await callS3(server.url, "PUT", "/damaged");
      return server;
    },
    env: s3Env,
    damage: (_, url, cid, how) => damageS3(url, "/damaged/p/", cid, how),
    ...needs(MOTO, "no moto_server: pip install 'moto[server]'"),
  },
  gcs: {
    table: 'provider = "gcs"\nbucket = "damaged"\nprefix = "p"',
    async start() {
      const server = await startFakeGcs();
      await makeBucket(server.url, "damaged");
      return server;
    },
    env: (url) => ({ STORAGE_EMULATOR_HOST: url }),
    damage: (_, url, cid, how) => damageGcs(url, "damaged", "p/", cid, how),
    ...needs(FAKE_GCS, "no fake-gcs-server: see scripts/test_servers.sh --long"),
  },
};

function command(home: string, args: string[], env: Record<string, string>) {
  const [program = "", ...argv] = selfCommand(args);
  return new Deno.Command(program, {
    args: argv,
    env: { ...env, SUBLET_HOME: home },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** Another home's store, over HTTP, until it is disposed. */
async function serve(home: string, files: readonly string[]) {
  const said = async (...args: string[]) =>
    new TextDecoder().decode((await command(home, args, {}).output()).stdout).trim();
  const token = await said("token", "create", "checker");
  await said("cas", "put", ...files);
  const server = command(home, ["cas", "serve", "--listen", "127.0.0.1:0"], {}).spawn();
  const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let line = "";
  while (!line.includes("\n")) line += (await reader.read()).value ?? "\n";
  await reader.cancel();
  return {
    token,
    url: line.replace("cas serving on ", "").trim(),
    async [Symbol.asyncDispose]() {
      server.kill("SIGTERM");
      await server.stderr.cancel();
      await server.status;
    },
  };
}

for (const [name, kind] of Object.entries(KINDS)) {
  Deno.test({
    name:
      `every kind of damage in a ${name} store is found, named, never served, and mended${kind.suffix}`,
    ignore: kind.ignore,
    async fn() {
      await using home = await TempDir.make();
      await using other = await TempDir.make();
      await using bucket = await kind.start?.() ?? null;
      const url = bucket?.url ?? "";
      await Deno.writeTextFile(home.join("config.toml"), `[plugins.cas]\n${kind.table}\n`);
      const blobs = [new TextEncoder().encode("small"), noise(300_000), new Uint8Array(90_000)];
      const files = await Promise.all(blobs.map(async (data, at) => {
        await Deno.writeFile(home.join(`file${at}`), data);
        return home.join(`file${at}`);
      }));
      await using source = await serve(other.path, files);
      const env = { ...kind.env(url), SUBLET_HTTPS_TOKEN: source.token };
      const run = async (...args: string[]) => {
        const { code, stdout, stderr } = await command(home.path, ["cas", ...args], env).output();
        const decoder = new TextDecoder();
        return {
          code,
          lines: decoder.decode(stdout).trim().split("\n"),
          said: decoder.decode(stderr),
        };
      };
      const cids = (await run("put", ...files)).lines as Cid[];
      const sorted = (state: string) => cids.map((cid) => `${state}\t${cid}`).sort();
      for (const [at, how] of WAYS.entries()) {
        for (const cid of cids) await kind.damage(home.path, url, cid, how);
        const check = await run("check");
        assert.deepEqual(
          [check.code, check.lines.sort()],
          [9, sorted("corrupt")],
          how + check.said,
        );
        const got = home.join("got");
        const get = await run("get", cids[at % cids.length] as Cid, got);
        assert.equal(get.code, 9, `${how}: ${get.said}`);
        await assert.rejects(Deno.stat(got), Deno.errors.NotFound);
        if (at % 2 === 0) assert.deepEqual((await run("put", ...files)).lines, cids);
        else {
          const alone = await run("check", "--repair");
          assert.equal(alone.code, 9);
          assert.match(alone.said, /the store has no other tier/);
          const repair = await run("check", "--repair", "--from", source.url);
          assert.deepEqual([repair.code, repair.lines.sort()], [0, sorted("mended")], repair.said);
        }
        assert.equal((await run("check")).code, 0, how);
      }
      // A dry run and a collection agree, and damage in what nobody needs is in the way of neither.
      await kind.damage(home.path, url, cids[1] as Cid, "flipped");
      const dry = JSON.parse((await run("gc", "--dry-run", "--json")).lines.join(""));
      assert.deepEqual([dry.blobs, dry.young, dry.removed, dry.leftovers], [3, 3, 0, 0]);
      const gc = await run("gc", "--alone", "--grace", "25h", "--json");
      assert.equal(gc.code, 0, gc.said);
      assert.equal(JSON.parse(gc.lines.join("")).removed, 0);
    },
  });
}
