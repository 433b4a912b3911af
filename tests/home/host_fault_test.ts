/** @module Telling a fault of this machine from other failures. */

import assert from "node:assert/strict";
import { isHostFault, SubletError } from "../../lib/home/mod.ts";

const full = Object.assign(new Error("os error 28"), { code: "ENOSPC" });

Deno.test("a full disk is a fault of the machine, wherever in the causes it stands", () => {
  assert.equal(isHostFault(full), true);
  const wrapped = new SubletError("unavailable", "cannot write x", { cause: full });
  assert.equal(isHostFault(new SubletError("failed", "no checkout", { cause: wrapped })), true);
});

Deno.test("what a helper says of the disk counts, and what a server says does not", () => {
  const words = "fatal: cannot store pack: No space left on device";
  assert.equal(isHostFault(new SubletError("failed", words)), true);
  assert.equal(isHostFault(new SubletError("unavailable", words)), false);
});

Deno.test("another failure is none of the machine's", () => {
  assert.equal(isHostFault(new SubletError("failed", "exit 1")), false);
  assert.equal(isHostFault("No space left on device"), false);
});
