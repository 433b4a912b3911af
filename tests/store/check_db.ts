// deno-lint-ignore-file no-non-null-assertion
/** @module The contract suite of the database port: every driver passes it. */

import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { ConstraintError, type Db, isTaken, type Tx, type Value } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";

/** Opens a database that holds nothing but what a test puts there. */
export type OpenDb = (path: string) => Promise<Db>;

/** Register the suite for the driver `name`. */
export function checkDb(name: string, open: OpenDb): void {
  const test = (title: string, body: (db: Db) => Promise<void>) =>
    Deno.test(`${name}: ${title}`, async () => {
      await using dir = await TempDir.make();
      await using db = await open(dir.join("test.db"));
      await db.write(async (tx) => {
        await tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL)");
      });
      await body(db);
    });
  checkWrites(test);
  checkErrors(test);
  checkReads(test);
  checkBodies(test);
  checkRepeatable(test);
  checkValues(test);
}

type Test = (title: string, body: (db: Db) => Promise<void>) => void;

const insert = (tx: Tx, id: number, v = "x") =>
  tx.run("INSERT INTO t (id, v) VALUES (?, ?)", [id, v]);

async function ids(db: Db): Promise<Value[]> {
  return (await db.read((tx) => tx.all("SELECT id FROM t ORDER BY id"))).map((row) => row.id!);
}

function checkWrites(test: Test): void {
  test("a write resolves with what its body returned, and is seen by a read after it", async (db) => {
    assert.equal(await db.write((tx) => insert(tx, 1)), 1);
    assert.deepEqual(await ids(db), [1]);
  });

  test("run tells how many rows changed, all gives rows and get the first or null", async (db) => {
    await db.write(async (tx) => {
      for (const id of [1, 2, 3]) await insert(tx, id);
      assert.equal(await tx.run("UPDATE t SET v = ? WHERE id > ?", ["y", 1]), 2);
      assert.equal(await tx.run("UPDATE t SET v = ? WHERE id > ?", ["y", 9]), 0);
      assert.deepEqual(await tx.get("SELECT * FROM t WHERE id > ? ORDER BY id", [1]), {
        id: 2,
        v: "y",
      });
      assert.equal(await tx.get("SELECT * FROM t WHERE id = 9"), null);
      assert.deepEqual(await tx.all("DELETE FROM t WHERE id < ? RETURNING id, v", [3]), [
        { id: 1, v: "x" },
        { id: 2, v: "y" },
      ]);
      assert.deepEqual(await tx.get("INSERT INTO t (v) VALUES (?) RETURNING id", ["z"]), { id: 4 });
    });
    assert.deepEqual(await ids(db), [3, 4]);
  });

  test("bodies of one tick run in the order in which they arrived", async (db) => {
    const order: number[] = [];
    await Promise.all(Array.from({ length: 50 }, (_, index) =>
      db.write(async (tx) => {
        order.push(index);
        await insert(tx, index);
        await tx.all("SELECT 1 AS one");
        order.push(index);
      })));
    assert.deepEqual(order, Array.from({ length: 100 }, (_, index) => Math.floor(index / 2)));
  });

  test("a body that throws undoes its own changes alone, and rejects with what it threw", async (db) => {
    const thrown = new Error("mine");
    const results = await Promise.allSettled([
      db.write((tx) => insert(tx, 1)),
      db.write(async (tx) => {
        await insert(tx, 2);
        await insert(tx, 3);
        throw thrown;
      }),
      db.write((tx) => insert(tx, 4)),
      db.write(async (tx) => {
        await insert(tx, 5);
        await insert(tx, 4);
      }),
      db.write(() => {
        throw thrown;
      }),
      db.write((tx) => insert(tx, 6)),
    ]);
    assert.deepEqual(results.map((result) => result.status), [
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    assert.equal((results[1] as PromiseRejectedResult).reason, thrown);
    assert.equal((results[4] as PromiseRejectedResult).reason, thrown);
    assert.deepEqual(await ids(db), [1, 4, 6]);
  });

  test("a body that throws alone in its tick changes nothing", async (db) => {
    await assert.rejects(
      db.write(async (tx) => {
        await insert(tx, 1);
        throw new Error("no");
      }),
      /^Error: no$/,
    );
    await db.write((tx) => insert(tx, 2));
    assert.deepEqual(await ids(db), [2]);
  });

  test("a body sees what bodies before it did, and not what a failed one did", async (db) => {
    const seen: Value[] = [];
    const count = async (tx: Tx) => seen.push((await tx.get("SELECT count(*) AS n FROM t"))!.n!);
    await Promise.allSettled([
      db.write(async (tx) => void (await insert(tx, 1), await count(tx))),
      db.write(async (tx) => {
        await insert(tx, 2);
        await count(tx);
        throw new Error("no");
      }),
      db.write(async (tx) => void await count(tx)),
    ]);
    assert.deepEqual(seen, [1, 2, 1]);
  });

  test("onCommit is called once the transaction is durable, in order, before the answer", async (db) => {
    const events: string[] = [];
    const one = db.write(async (tx) => {
      tx.onCommit(() => events.push("a"));
      tx.onCommit(() => events.push("b"));
      await insert(tx, 1);
      events.push("body");
    }).then(() => events.push("answer"));
    const two = db.write(async (tx) => {
      tx.onCommit(() => events.push("never"));
      await insert(tx, 2);
      throw new Error("no");
    }).catch(() => events.push("refused"));
    await Promise.all([one, two]);
    assert.deepEqual(events, ["body", "a", "b", "answer", "refused"]);
  });

  test("hundreds of writes at once, a third of which fail, leave exactly the others", async (db) => {
    const results = await Promise.allSettled(
      Array.from({ length: 600 }, (_, id) =>
        db.write(async (tx) => {
          await insert(tx, id);
          if (id % 3 === 0) throw new Error("no");
        })),
    );
    const kept = results.flatMap((result, id) => result.status === "fulfilled" ? [id] : []);
    assert.equal(kept.length, 400);
    assert.deepEqual(await ids(db), kept);
  });
}

function checkErrors(test: Test): void {
  test("a broken constraint is a typed error that a body may catch and go on from", async (db) => {
    await db.write(async (tx) => {
      await tx.run(
        "CREATE TABLE u (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c INTEGER NOT NULL CHECK (c > 0))",
      );
      await tx.run("CREATE TABLE w (a INTEGER REFERENCES u (a))");
      await tx.run("INSERT INTO u VALUES (1, 'x', 1)");
    });
    const cases = [
      ["INSERT INTO u VALUES (1, 'y', 1)", "unique"],
      ["INSERT INTO u VALUES (2, 'x', 1)", "unique"],
      ["INSERT INTO u VALUES (2, 'y', NULL)", "not_null"],
      ["INSERT INTO u VALUES (2, 'y', 0)", "check"],
      ["INSERT INTO w VALUES (7)", "foreign_key"],
    ] as const;
    for (const [sql, kind] of cases) {
      await db.write(async (tx) => {
        const error = await tx.run(sql).catch((error) => error);
        assert.ok(error instanceof ConstraintError, sql);
        assert.equal(error.constraint, kind);
        assert.equal(isTaken(error), kind === "unique");
        await insert(tx, cases.findIndex((one) => one[0] === sql));
      });
    }
    assert.deepEqual(await ids(db), [0, 1, 2, 3, 4]);
  });

  test("a wrong statement is `internal`, and names the statement", async (db) => {
    for (const sql of ["SELEC 1", "SELECT * FROM nowhere", "INSERT INTO t (nope) VALUES (1)"]) {
      await assert.rejects(
        db.write((tx) => tx.all(sql)),
        (error) => isError(error, "internal") && error.message.includes(sql),
      );
    }
  });

  test("too few and too many values are `internal`, and nothing runs", async (db) => {
    for (const params of [[], [1], [1, "x", 2]]) {
      await assert.rejects(
        db.write((tx) => tx.run("INSERT INTO t (id, v) VALUES (?, ?)", params)),
        (error) => isError(error, "internal") && /2 parameters/.test(error.message),
      );
    }
    assert.equal(
      (await db.write((tx) => tx.get("SELECT '?' AS a, \"id\" /* ? */ FROM t -- ?")))?.a,
      undefined,
    );
    assert.deepEqual(await ids(db), []);
  });

  test("a body cannot end its transaction itself", async (db) => {
    for (const sql of ["COMMIT", " rollback", "BEGIN", "savepoint a", "/* x */ END"]) {
      await assert.rejects(
        db.write(async (tx) => {
          await insert(tx, 1);
          await tx.run(sql);
        }),
        (error) => isError(error, "internal"),
      );
    }
    assert.deepEqual(await ids(db), []);
  });

  test("after it is disposed a database refuses with `unavailable`, and what was queued is done", async (db) => {
    const queued = db.write((tx) => insert(tx, 1));
    const read = db.read((tx) => tx.all("SELECT 1 AS one"));
    await db[Symbol.asyncDispose]();
    assert.equal(await queued, 1);
    assert.deepEqual(await read, [{ one: 1 }]);
    await assert.rejects(db.write((tx) => insert(tx, 2)), (e) => isError(e, "unavailable"));
    await assert.rejects(ids(db), (e) => isError(e, "unavailable"));
  });
}

function checkReads(test: Test): void {
  test("a read may not change anything", async (db) => {
    const changes = [
      "INSERT INTO t VALUES (1, 'x')",
      "WITH a AS (SELECT 1 AS one) INSERT INTO t SELECT one, 'x' FROM a",
      "DELETE FROM t RETURNING id",
      "DROP TABLE t",
    ];
    for (const sql of changes) {
      await assert.rejects(db.read((tx) => tx.all(sql)), (e) => isError(e, "internal"), sql);
    }
    assert.deepEqual(await ids(db), []);
  });

  test("every read sees the writes that were answered before it", async (db) => {
    await Promise.all(Array.from({ length: 40 }, async (_, id) => {
      await db.write((tx) => insert(tx, id));
      assert.notEqual(await db.read((tx) => tx.get("SELECT 1 FROM t WHERE id = ?", [id])), null);
    }));
  });

  test("reads at once each get their own answer, and a failed one hurts no other", async (db) => {
    await db.write((tx) => insert(tx, 1));
    const results = await Promise.allSettled([
      ids(db),
      db.read((tx) => tx.all("SELECT * FROM nowhere")),
      db.read(() => {
        throw new Error("mine");
      }),
      ids(db),
    ]);
    assert.deepEqual(results.map((one) => one.status), [
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    assert.deepEqual((results[3] as PromiseFulfilledResult<Value[]>).value, [1]);
  });

  test("the version for caches does not move with our own writes", async (db) => {
    const before = db.dataVersion();
    await db.write((tx) => insert(tx, 1));
    assert.equal(db.dataVersion(), before);
  });
}

function checkBodies(test: Test): void {
  const awaits = (error: unknown) => isError(error, "internal") && /awaited/.test(error.message);

  test("a body that awaits something else is undone, and the lane goes on", async (db) => {
    const elsewhere = Promise.withResolvers<void>();
    const results = await Promise.allSettled([
      db.write((tx) => insert(tx, 1)),
      db.write(async (tx) => {
        await insert(tx, 2);
        await elsewhere.promise;
        await insert(tx, 3);
      }),
      db.write((tx) => insert(tx, 4)),
    ]);
    assert.ok(awaits((results[1] as PromiseRejectedResult).reason));
    elsewhere.resolve();
    await db.write((tx) => insert(tx, 5));
    assert.deepEqual(await ids(db), [1, 4, 5]);
  });

  test("a body that awaits another write or read does not stop the database", async (db) => {
    await assert.rejects(
      db.write(async (tx) => {
        await insert(tx, 1);
        await db.write((inner) => insert(inner, 2));
      }),
      awaits,
    );
    await assert.rejects(db.read(() => db.read((tx) => tx.all("SELECT 1"))), awaits);
    await db.write((tx) => insert(tx, 3));
    assert.deepEqual(await ids(db), [2, 3]);
  });

  test("a Tx is of no use after its body has ended", async (db) => {
    let kept: Tx | null = null;
    await db.write((tx) => {
      kept = tx;
      return insert(tx, 1);
    });
    const tx = kept as unknown as Tx;
    await assert.rejects(tx.run("DELETE FROM t"), (e) => isError(e, "internal"));
    assert.throws(() => tx.onCommit(() => {}), (e) => isError(e, "internal"));
    assert.deepEqual(await ids(db), [1]);
  });
}

function checkValues(test: Test): void {
  test("values come back as they went in", async (db) => {
    const values: Value[] = [
      null,
      0,
      1,
      -1,
      Number.MAX_SAFE_INTEGER,
      Number.MIN_SAFE_INTEGER,
      0.1,
      -1.5e300,
      "",
      "'quoted' \"twice\" ? ; --",
      "naïve 日本語 🚀\n\t",
      "x".repeat(200_000),
      new Uint8Array(0),
      new Uint8Array([0, 1, 255]),
      new Uint8Array([9, 8, 7, 6]).subarray(1, 3),
      new Uint8Array(100_000).fill(7),
    ];
    await db.write(async (tx) => {
      await tx.run("CREATE TABLE v (i INTEGER PRIMARY KEY, x BLOB)");
      for (const [i, x] of values.entries()) {
        await tx.run("INSERT INTO v (i, x) VALUES (?, ?)", [i, x]);
      }
    });
    const rows = await db.read((tx) => tx.all("SELECT x FROM v ORDER BY i"));
    assert.deepEqual(
      rows.map((row) => row.x instanceof Uint8Array ? new Uint8Array(row.x) : row.x),
      values.map((x) => x instanceof Uint8Array ? new Uint8Array(x) : x),
    );
  });

  test("whole numbers are integers, in division and in JSON too", async (db) => {
    const row = await db.read((tx) =>
      tx.get("SELECT ? / 2 AS half, json_array(?) AS json", [7, 7])
    );
    assert.deepEqual(row, { half: 3, json: "[7]" });
  });

  test("text with a NUL is refused, not cut", async (db) => {
    await assert.rejects(
      db.write((tx) => insert(tx, 1, "a\0b")),
      (e) => isError(e, "invalid_request"),
    );
    assert.deepEqual(await ids(db), []);
  });

  test("an integer beyond 2^53 is an error to read, not another number", async (db) => {
    await assert.rejects(
      db.read((tx) => tx.get("SELECT 9007199254740993 AS big")),
      (e) => isError(e, "internal"),
    );
  });
}

/** Bodies that may run again, which share a transaction without savepoints. */
function checkRepeatable(test: Test): void {
  const repeatable = { repeatable: true };
  const failing = async (tx: Tx, id: number) => {
    await insert(tx, id);
    throw new Error(`body ${id}`);
  };

  test("of bodies that may run again, one that throws undoes its own changes alone", async (db) => {
    const runs = [0, 0, 0, 0];
    const committed: number[] = [];
    const found = await Promise.allSettled([1, 2, 3].map((id) =>
      db.write(async (tx) => {
        runs[id] = (runs[id] ?? 0) + 1;
        tx.onCommit(() => committed.push(id));
        if (id === 2) return await failing(tx, id);
        await insert(tx, id);
        return id;
      }, repeatable)
    ));
    assert.deepEqual(
      found.map((one) => one.status === "fulfilled" ? one.value : one.reason.message),
      [
        1,
        "body 2",
        3,
      ],
    );
    assert.deepEqual(await ids(db), [1, 3]);
    assert.deepEqual(committed, [1, 3]);
    assert.deepEqual(runs, [0, 2, 2, 1], "those before it, and itself, ran again");
  });

  test("bodies that may run again and throw with nothing to undo do not make others run again", async (db) => {
    await db.write((tx) => insert(tx, 1));
    let runs = 0;
    const found = await Promise.allSettled([
      db.write(async (tx) => {
        runs++;
        await insert(tx, 2);
      }, repeatable),
      db.write(async (tx) => {
        assert.equal(await tx.run("UPDATE t SET v = 'y' WHERE id = 9"), 0);
        throw new Error("nothing found");
      }, repeatable),
      db.write(async (tx) => {
        await tx.get("SELECT id FROM t");
        throw new Error("only read");
      }, repeatable),
      db.write((tx) => insert(tx, 1), repeatable),
    ]);
    assert.deepEqual(found.map(({ status }) => status), [
      "fulfilled",
      "rejected",
      "rejected",
      "rejected",
    ]);
    assert.equal(runs, 1);
    assert.deepEqual(await ids(db), [1, 2]);
  });

  test("a body that may not run again runs once, whatever happens beside it", async (db) => {
    let runs = 0;
    const found = await Promise.allSettled([
      db.write((tx) => insert(tx, 1), repeatable),
      db.write(async (tx) => {
        runs++;
        await insert(tx, 2);
      }),
      db.write((tx) => failing(tx, 3), repeatable),
    ]);
    assert.deepEqual(found.map(({ status }) => status), ["fulfilled", "fulfilled", "rejected"]);
    assert.equal(runs, 1);
    assert.deepEqual(await ids(db), [1, 2]);
  });

  test("what changes no row but the schema is undone, too, alone and beside others", async (db) => {
    const make = async (tx: Tx) => {
      await tx.run("CREATE TABLE made (id INTEGER)");
      throw new Error("no");
    };
    await assert.rejects(db.write(make));
    await assert.rejects(db.write(make, repeatable));
    await Promise.allSettled([
      db.write((tx) => insert(tx, 1), repeatable),
      db.write(make, repeatable),
    ]);
    assert.equal(
      await db.read((tx) => tx.get("SELECT name FROM sqlite_master WHERE name = 'made'")),
      null,
    );
    assert.deepEqual(await ids(db), [1]);
  });

  test("a body that waits for something else is undone, and those beside it are not", async (db) => {
    const found = await Promise.allSettled([
      db.write((tx) => insert(tx, 1), repeatable),
      db.write(async (tx) => {
        await insert(tx, 2);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }, repeatable),
      db.write((tx) => insert(tx, 3), repeatable),
    ]);
    assert.deepEqual(found.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
    assert.deepEqual(await ids(db), [1, 3]);
  });
}
