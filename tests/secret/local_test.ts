import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { isError, systemClock } from "../../lib/home/mod.ts";
import { LocalSecrets, openSecrets, SealingKey } from "../../lib/secret/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { checkSecrets } from "./check_secrets.ts";

const KEY = new SealingKey(new Uint8Array(32).fill(7));
const VALUE = "a value that must not be found";

checkSecrets("local", () => Promise.resolve(new LocalSecrets(KEY, systemClock)));

const corrupt = (error: unknown) => isError(error, "integrity");

Deno.test("no file of a home holds a value, and another key does not open it", async () => {
  await using dir = await TempDir.make();
  await using db = await openSqlite(dir.join("sublet.db"));
  const secrets = await openSecrets({ provider: "local" }, { home: dir.path, clock: systemClock });
  await db.write((tx) => secrets.put(tx, null, "KEY", VALUE, "me"));
  for await (const { name } of Deno.readDir(dir.path)) {
    const bytes = Buffer.from(await Deno.readFile(dir.join(name)));
    for (const form of [VALUE, Buffer.from(VALUE).toString("base64")]) {
      assert.equal(bytes.indexOf(form), -1, name);
    }
  }
  const others = new LocalSecrets(new SealingKey(new Uint8Array(32).fill(8)), systemClock);
  await assert.rejects(db.read((tx) => others.values(tx, null, ["KEY"])), corrupt);
});

Deno.test("the key is made once, for its owner alone, and the same for all who open the home", async () => {
  await using dir = await TempDir.make();
  const open = () => openSecrets({ provider: "local" }, { home: dir.path, clock: systemClock });
  await using db = await openSqlite(":memory:");
  const all = await Promise.all(Array.from({ length: 8 }, open));
  await db.write((tx) => all[0]?.put(tx, null, "KEY", VALUE, "me") ?? Promise.reject());
  for (const secrets of [...all, await open()]) {
    assert.equal((await db.read((tx) => secrets.values(tx, null, ["KEY"]))).get("KEY"), VALUE);
  }
  const names = (await Array.fromAsync(Deno.readDir(dir.path))).map(({ name }) => name);
  assert.deepEqual(names, ["secret.key"]);
  assert.equal(((await Deno.stat(dir.join("secret.key"))).mode ?? 0) & 0o777, 0o600);
});

Deno.test("a key file that others may read, or that is none, is an error that says what to do", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("secret.key");
  const open = () => openSecrets({ provider: "local" }, { home: dir.path, clock: systemClock });
  await open();
  await Deno.chmod(path, 0o644);
  await assert.rejects(
    open(),
    (error) => isError(error, "config") && /chmod 600/.test(error.message),
  );
  await Deno.chmod(path, 0o600);
  await Deno.writeTextFile(path, "sublet-key-1:short\n");
  await assert.rejects(open(), (error) => isError(error, "config") && /no key/.test(error.message));
});

Deno.test("a sealed value opens only where it was put, and not when a bit of it changed", async () => {
  await using db = await openSqlite(":memory:");
  const secrets = new LocalSecrets(KEY, systemClock);
  await db.write(async (tx) => {
    await secrets.put(tx, null, "ONE", VALUE, "me");
    await secrets.put(tx, null, "TWO", "another value", "me");
    await tx.run(
      `UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'ONE') WHERE name = 'TWO'`,
    );
  });
  await assert.rejects(db.read((tx) => secrets.values(tx, null, ["TWO"])), corrupt);
  const sealed = KEY.seal("context", VALUE);
  assert.equal(KEY.open("context", sealed), VALUE);
  assert.throws(() => KEY.open("other", sealed), corrupt);
  for (let at = 0; at < sealed.length; at++) {
    const changed = sealed.slice();
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => KEY.open("context", changed), corrupt, `byte ${at}`);
    assert.throws(() => KEY.open("context", sealed.slice(0, at)), corrupt, `${at} bytes`);
  }
  assert.notDeepEqual(KEY.seal("context", VALUE), sealed);
});

Deno.test("an unknown provider is a mistake of the config, by name", async () => {
  await assert.rejects(
    openSecrets({ provider: "vault" }, { home: "/nowhere", clock: systemClock }),
    (error) =>
      isError(error, "config") && /plugins\.secrets\.provider = "vault"/.test(error.message),
  );
});
