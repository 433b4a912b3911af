/** @module The contract suite of providers of secrets: every one passes it. */

import assert from "node:assert/strict";
import { isError, systemClock } from "../../lib/home/mod.ts";
import type { Secrets } from "../../lib/secret/mod.ts";
import { type Db, openSqlite } from "../../lib/store/mod.ts";

/** Register the suite for the provider `name`. Each test has a database of its own with the campaigns 1 and 2. */
export function checkSecrets(name: string, open: (db: Db) => Promise<Secrets>): void {
  const test = (title: string, body: (db: Db, secrets: Secrets) => Promise<void>) =>
    Deno.test(`${name}: ${title}`, async () => {
      await using db = await openSqlite(":memory:");
      await db.write(async (tx) => {
        for (const id of [1, 2]) {
          await tx.run(
            `INSERT INTO campaigns (id, name, path, config, evaluator, created_at, updated_at)
             VALUES (?, ?, ?, '{}', '', 0, 0)`,
            [id, `c${id}`, `/c${id}`],
          );
        }
      });
      await body(db, await open(db));
    });
  values(test);
  refusals(test);
}

type Test = (title: string, body: (db: Db, secrets: Secrets) => Promise<void>) => void;

function values(test: Test): void {
  test(
    "a value comes back for its owner, and the campaign's goes before the home's",
    async (db, secrets) => {
      await db.write(async (tx) => {
        await secrets.put(tx, null, "A", "home's a", "me");
        await secrets.put(tx, null, "B", "home's b", "me");
        await secrets.put(tx, 1, "A", "campaign's a", "me");
      });
      const of = (owner: number | null) =>
        db.read(async (tx) => Object.fromEntries(await secrets.values(tx, owner, ["A", "B", "C"])));
      assert.deepEqual(await of(1), { A: "campaign's a", B: "home's b" });
      assert.deepEqual(await of(2), { A: "home's a", B: "home's b" });
      assert.deepEqual(await of(null), { A: "home's a", B: "home's b" });
    },
  );

  test("a value is kept byte for byte, and replaced by the next", async (db, secrets) => {
    for (const value of ["four", " é\n日本 ' \" % _ \\ ", "x".repeat(64 * 1024)]) {
      await db.write((tx) => secrets.put(tx, 2, "KEY", value, "me"));
      const found = await db.read((tx) => secrets.values(tx, 2, ["KEY"]));
      assert.equal(found.get("KEY"), value);
    }
  });

  test("the list names owner, name, when and by whom, and no value", async (db, secrets) => {
    const from = systemClock.now() - 1;
    await db.write(async (tx) => {
      await secrets.put(tx, 1, "Z", "value of z", "ann");
      await secrets.put(tx, null, "Y", "value of y", "bob");
      await secrets.put(tx, 1, "A", "value of a", "ann");
    });
    const list = await db.read((tx) => secrets.list(tx));
    assert.deepEqual(list.map(({ owner, name, setBy }) => [owner, name, setBy]), [
      [null, "Y", "bob"],
      [1, "A", "ann"],
      [1, "Z", "ann"],
    ]);
    assert.ok(list.every(({ setAt }) => setAt >= from && setAt <= systemClock.now()));
    assert.ok(!JSON.stringify(list).includes("value of"));
  });

  test("a deleted one is gone, and deleting what is not there says so", async (db, secrets) => {
    await db.write((tx) => secrets.put(tx, 1, "A", "value", "me"));
    assert.equal(await db.write((tx) => secrets.delete(tx, null, "A")), false);
    assert.equal(await db.write((tx) => secrets.delete(tx, 1, "A")), true);
    assert.equal(await db.write((tx) => secrets.delete(tx, 1, "A")), false);
    assert.deepEqual(await db.read((tx) => secrets.list(tx)), []);
  });

  test("a transaction that fails keeps nothing", async (db, secrets) => {
    await assert.rejects(
      db.write(async (tx) => {
        await secrets.put(tx, null, "A", "value", "me");
        throw new Error("no");
      }),
    );
    assert.deepEqual(await db.read((tx) => secrets.list(tx)), []);
  });
}

function refusals(test: Test): void {
  test("names and values that cannot be are refused, without the value", async (db, secrets) => {
    const bad: [string, string][] = [
      ["", "value"],
      ["1A", "value"],
      ["A-B", "value"],
      ["A\0", "value"],
      ["A".repeat(257), "value"],
      ["A", ""],
      ["A", "abc"],
      ["A", "val\0ue"],
      ["A", "val\ud800ue"],
      ["A", "x".repeat(64 * 1024 + 1)],
    ];
    for (const [name, value] of bad) {
      await assert.rejects(
        db.write((tx) => secrets.put(tx, null, name, value, "me")),
        (error) =>
          isError(error, "invalid_request") &&
          (value === "" || name !== "A" || !error.message.includes(value)),
        `${name.slice(0, 10)}: ${value.slice(0, 10)}`,
      );
    }
    assert.deepEqual(await db.read((tx) => secrets.list(tx)), []);
  });

  test("a campaign that is not there is no owner", async (db, secrets) => {
    await assert.rejects(db.write((tx) => secrets.put(tx, 77, "A", "value", "me")));
  });
}
