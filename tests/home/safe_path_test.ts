import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import fc from "fast-check";
import { isError, safeRelative, unsafeReason } from "../../lib/home/mod.ts";

const SAFE = [
  "a",
  "a/b/c.txt",
  ".gitignore",
  ".gitmodules",
  "dir/.github/x",
  "git",
  "a.git",
  "a.git/b",
  ".gitx",
  "git~x",
  "..a",
  "a..",
  "a/..b/c",
  "...a",
  ".hidden",
  "with space",
  "with:colon",
  "line\nbreak",
  "naïve/日本語/🚀",
  "C",
  "é:",
  "a".repeat(255),
];

const UNSAFE = [
  ["", "empty"],
  ["/", "absolute"],
  ["/etc/passwd", "absolute"],
  ["..", "part"],
  [".", "part"],
  ["../a", "part"],
  ["a/../b", "part"],
  ["a/..", "part"],
  ["a/./b", "part"],
  ["a//b", "empty part"],
  ["a/", "empty part"],
  ["...", "part"],
  ["a/.. /b", "part"],
  ["a/ /b", "part"],
  ["a\\b", "backslash"],
  ["..\\..\\a", "backslash"],
  ["\\\\server\\share", "backslash"],
  ["C:", "drive"],
  ["c:/windows", "drive"],
  ["Z:x", "drive"],
  ["a\0b", "NUL"],
  [".git", "part"],
  [".GIT/hooks/post-checkout", "part"],
  ["a/.gIt/config", "part"],
  [".git /x", "part"],
  [".git.", "part"],
  [".git . .", "part"],
  ["git~1/x", "part"],
  ["GIT~2", "part"],
  [".git::$INDEX_ALLOCATION/x", "part"],
  [".git:stream", "part"],
  [".g\u200cit", "part"],
  ["\ufeff.git", "part"],
  ["a/.gi\u206at/b", "part"],
  ["\ud800", "well-formed"],
  ["a".repeat(256), "255 bytes"],
  ["é".repeat(128), "255 bytes"],
  ["a/".repeat(2100) + "a", "4,096"],
  ["日/".repeat(1200) + "a", "4,096"],
] as const;

for (const path of SAFE) {
  Deno.test(`the path ${JSON.stringify(path).slice(0, 50)} is safe`, () => {
    assert.equal(unsafeReason(path), null);
    assert.equal(safeRelative(path, "test"), path);
  });
}

for (const [path, why] of UNSAFE) {
  Deno.test(`the path ${JSON.stringify(path).slice(0, 50)} is refused: ${why}`, () => {
    assert.match(unsafeReason(path) ?? "safe", new RegExp(why));
    assert.throws(
      () => safeRelative(path, "files of the report"),
      (error) =>
        isError(error, "unsafe_path") && error.message.startsWith("files of the report: ") &&
        error.message.length < 500,
    );
  });
}

const part = fc.oneof(
  fc.constantFrom("..", ".", "", ".git", "a", " ", "\0", "\\", "C:", "~", "-", "git~1"),
  fc.string({ unit: "grapheme" }),
);
const path = fc.tuple(fc.constantFrom("", "/", "//"), fc.array(part)).map(([head, parts]) =>
  head + parts.join("/")
);

Deno.test("no path that is let through leads out of its root, however it is joined", () => {
  fc.assert(
    fc.property(path, (text) => {
      if (unsafeReason(text) !== null) return;
      for (const joined of [join("/root/dir", text), resolve("/root/dir", text)]) {
        assert.ok(joined.startsWith("/root/dir/"), joined);
        assert.equal(joined, `/root/dir/${text}`, "joining changed it");
      }
    }),
    { numRuns: 3000 },
  );
});

Deno.test("what is let through is let through part by part, and never holds a .git", () => {
  fc.assert(
    fc.property(path, (text) => {
      if (unsafeReason(text) !== null) return;
      for (const one of text.split("/")) {
        // A drive letter means something only at the start of a path.
        if (!/^[A-Za-z]:/.test(one)) assert.equal(unsafeReason(one), null);
        assert.notEqual(one.toLowerCase().trim(), ".git");
      }
    }),
    { numRuns: 3000 },
  );
});
