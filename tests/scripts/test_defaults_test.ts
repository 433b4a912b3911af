/** @module The defaults of newer Denos, as older ones are given them. */

import assert from "node:assert/strict";
import { needsTestDefaults, withoutSanitizers } from "../../scripts/needs_test_defaults.ts";

Deno.test("a test that is declared in any way has no sanitizer, unless it asks for one", () => {
  const off = { sanitizeOps: false, sanitizeResources: false };
  const named = () => {};
  assert.deepEqual(withoutSanitizers([named]), [{ ...off, name: "named", fn: named }]);
  assert.deepEqual(withoutSanitizers(["a", named]), [{ ...off, name: "a", fn: named }]);
  assert.deepEqual(withoutSanitizers(["a", { ignore: true }, named]), [
    { ...off, ignore: true, name: "a", fn: named },
  ]);
  assert.deepEqual(withoutSanitizers([{ name: "b", ignore: true }, named]), [
    { ...off, name: "b", ignore: true, fn: named },
  ]);
  assert.deepEqual(withoutSanitizers([{ name: "c", fn: named, sanitizeOps: true }]), [
    { sanitizeOps: true, sanitizeResources: false, name: "c", fn: named },
  ]);
});

Deno.test("only versions before 2.9 need them", () => {
  assert.deepEqual(
    ["1.46.3", "2.6.10", "2.8.0", "2.9.0", "2.10.1", "3.0.0"].filter(needsTestDefaults),
    ["1.46.3", "2.6.10", "2.8.0"],
  );
});
