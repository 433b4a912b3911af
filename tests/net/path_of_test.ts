import assert from "node:assert/strict";
import { pathOf } from "../../lib/net/mod.ts";

Deno.test("the path of a URL is what follows its authority, without the query", () => {
  const paths = {
    "http://a/v1/x": "/v1/x",
    "https://[::1]:80/v1/x?y=/z": "/v1/x",
    "http://a": "/",
    "http+unix://%2Ftmp%2Fs.sock/v1/x": "/v1/x",
    "http://a/": "/",
  };
  for (const [url, path] of Object.entries(paths)) assert.equal(pathOf(url), path, url);
});
