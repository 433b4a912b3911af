import assert from "node:assert/strict";
import { addressOf, formatAddress, isError, isLoopback, parseAddress } from "../../lib/home/mod.ts";

const ADDRESSES = [
  ["127.0.0.1:8443", "127.0.0.1", 8443],
  ["localhost:0", "localhost", 0],
  ["[::1]:8443", "::1", 8443],
  ["[::]:65535", "::", 65535],
  ["[fe80::1%eth0]:1", "fe80::1%eth0", 1],
  ["::1:80", "::1", 80],
  ["my-host.example:443", "my-host.example", 443],
] as const;

for (const [text, host, port] of ADDRESSES) {
  Deno.test(`the address ${text} is ${host}, port ${port}`, () => {
    assert.deepEqual(parseAddress(text), { host, port });
    assert.deepEqual(parseAddress(formatAddress({ host, port })), { host, port });
  });
}

for (
  const text of [
    "",
    ":80",
    "80",
    "host",
    "host:",
    "host:x",
    "host:-1",
    "host:65536",
    "host:1e3",
    "host: 80",
    "[host]:80",
    "[]:80",
    "[::1]",
    "http://host:80",
    "a b:80",
    "host:123456",
  ]
) {
  Deno.test(`${JSON.stringify(text)} is no address`, () => {
    assert.equal(addressOf(text), null);
    assert.throws(() => parseAddress(text), (error) => isError(error, "usage"));
  });
}

Deno.test("loopback is localhost and the loopback addresses, and no other name", () => {
  for (
    const host of [
      "localhost",
      "LOCALHOST",
      "127.0.0.1",
      "127.9.9.9",
      "::1",
      "0:0:0:0:0:0:0:1",
      "::ffff:127.0.0.1",
    ]
  ) {
    assert.equal(isLoopback(host), true, host);
  }
  for (
    const host of [
      "0.0.0.0",
      "::",
      "10.0.0.1",
      "128.0.0.1",
      "localhost.example",
      "127.0.0.1.example",
      "",
      "::ffff:10.0.0.1",
      "::2",
    ]
  ) {
    assert.equal(isLoopback(host), false, host);
  }
});
