/** @module What the command line makes of the variables that name a server and its token. */

import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { ApiClient } from "../../lib/cli/api_client.ts";
import { checkLocal } from "../../lib/cli/stop_command.ts";
import { credentialFromEnv } from "../../lib/net/mod.ts";

const SERVER = { SUBLET_SERVER: "http://127.0.0.1:9", HOME: "/nowhere" };

Deno.test("a token with white space around it is taken without, and one with some inside is refused", async () => {
  assert.equal(credentialFromEnv({ SUBLET_HTTPS_TOKEN: " slt_a\n" }), "slt_a");
  using _api = await ApiClient.open({ ...SERVER, SUBLET_TOKEN: "slt_a\r\n" });
  for (const token of ["slt_a\nslt_b", "slt a", "slt_\u00e9"]) {
    await assert.rejects(
      ApiClient.open({ ...SERVER, SUBLET_TOKEN: token }),
      (error) => isError(error, "no_credential") && /^SUBLET_TOKEN holds/.test(error.message),
    );
  }
  await assert.rejects(ApiClient.open({ ...SERVER, SUBLET_TOKEN: " " }), /SUBLET_TOKEN is not/);
});

Deno.test("stop and restart refuse a server that is not this home's", () => {
  checkLocal("stop", {});
  checkLocal("stop", { SUBLET_SERVER: "" });
  assert.throws(() => checkLocal("stop", SERVER), (error) => {
    return isError(error, "usage") && /SUBLET_SERVER names http/.test(error.message);
  });
});
