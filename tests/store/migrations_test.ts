import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { Connection } from "../../lib/store/connection.ts";
import { migrate, type Migration, migrations } from "../../lib/store/migrations.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";

const ONE: Migration = { version: 1, name: "0001_a.sql", sql: "CREATE TABLE a (x INTEGER);" };
const TWO: Migration = {
  version: 2,
  name: "0002_b.sql",
  sql: "CREATE TABLE b (x INTEGER); INSERT INTO b VALUES (1); INSERT INTO a VALUES (2);",
};

function memory(): Connection {
  return new Connection(":memory:", false, 0);
}

Deno.test("migrations run in order, once, and are recorded", () => {
  const connection = memory();
  migrate(connection, "x", [ONE]);
  migrate(connection, "x", [ONE, TWO]);
  migrate(connection, "x", [ONE, TWO]);
  assert.deepEqual(connection.all("SELECT x FROM a", []), [{ x: 2 }]);
  assert.deepEqual(connection.all("SELECT version, name FROM schema_migrations", []), [
    { version: 1, name: "0001_a.sql" },
    { version: 2, name: "0002_b.sql" },
  ]);
  connection.close();
});

Deno.test("a migration that fails leaves nothing of itself behind", () => {
  const connection = memory();
  const broken = { ...TWO, sql: "CREATE TABLE b (x INTEGER); INSERT INTO nowhere VALUES (1);" };
  assert.throws(() => migrate(connection, "x", [ONE, broken]), /nowhere/);
  assert.equal(connection.inTransaction, false);
  assert.equal(connection.get("SELECT 1 FROM sqlite_schema WHERE name = 'b'", []), null);
  migrate(connection, "x", [ONE, TWO]);
  assert.deepEqual(connection.all("SELECT x FROM b", []), [{ x: 1 }]);
  connection.close();
});

Deno.test("a database of a newer schema is refused, and says whose it is", () => {
  const connection = memory();
  migrate(connection, "x", [ONE, TWO]);
  assert.throws(
    () => migrate(connection, "/home/me/sublet.db", [ONE]),
    (error) =>
      isError(error, "unavailable") &&
      /\/home\/me\/sublet\.db has schema 2 \(0002_b\.sql\).*up to 1.*newer sublet/.test(
        error.message,
      ),
  );
  connection.close();
});

Deno.test("a database made with another text of a migration is refused", () => {
  const connection = memory();
  migrate(connection, "x", [ONE]);
  assert.throws(
    () => migrate(connection, "x", [{ ...ONE, sql: "CREATE TABLE a (y INTEGER);" }]),
    (error) => isError(error, "unavailable") && /0001_a\.sql/.test(error.message),
  );
  connection.close();
});

Deno.test("the migrations of this build are numbered without a gap, each by its file's name", async () => {
  const list = await migrations();
  for (const [index, { version, name }] of list.entries()) {
    assert.equal(version, index + 1);
    assert.match(name, new RegExp(`^${String(version).padStart(4, "0")}_[a-z_]+\\.sql$`));
  }
  const files = [...Deno.readDirSync(new URL("../../lib/store/migrations", import.meta.url))];
  assert.deepEqual(files.map((file) => file.name).sort(), list.map(({ name }) => name));
});

Deno.test("a new database has the tables of the base, and keeps its rows when it is opened again", async () => {
  await using dir = await TempDir.make();
  {
    await using db = await openSqlite(dir.join("a.db"));
    await db.write((tx) => tx.run("INSERT INTO settings (key, value) VALUES ('a', 'b')"));
  }
  await using db = await openSqlite(dir.join("a.db"));
  assert.deepEqual(await db.read((tx) => tx.all("SELECT * FROM settings")), [{
    key: "a",
    value: "b",
  }]);
});
