/** @module Tests of CIDs: the vectors of the format, and what the parser refuses. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { isError } from "../../lib/home/mod.ts";
import {
  cidBytes,
  cidOf,
  cidOfDigest,
  digestOf,
  drislCid,
  isCid,
  isDrisl,
  nameToCid,
  objectName,
  parseCid,
  rawCid,
  sameBlob,
} from "../../lib/cas/mod.ts";

const text = (value: string) => new TextEncoder().encode(value);
const hex = (bytes: Uint8Array) =>
  Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

const VECTORS = [
  {
    what: "the empty blob",
    bytes: text(""),
    raw: "bafkr4ifpcne3t5pzugtkaqcn5i3nzskjtpfslsnnyejlpte2spfoihzsmi",
    drisl: "bafyr4ifpcne3t5pzugtkaqcn5i3nzskjtpfslsnnyejlpte2spfoihzsmi",
    digest: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    name: "v4jutopv7gq2nicajxvdnxgjjgn4wjojvxarfn6mtkj4vza7gjra",
  },
  {
    what: "abc",
    bytes: text("abc"),
    raw: "bafkr4ideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu",
    drisl: "bafyr4ideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu",
    digest: "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    name: "mq33hlbyizith75whn2soounwvemkwcglv45wa75gwogzvn5twcq",
  },
  {
    what: "1 MiB of zeros",
    bytes: new Uint8Array(1 << 20),
    raw: "bafkr4icirxraf5z33f3n4ttqjd2od442o5wynvmcw42i75j36qzltb74va",
    drisl: "bafyr4icirxraf5z33f3n4ttqjd2od442o5wynvmcw42i75j36qzltb74va",
    digest: "488de202f73bd976de4e7048f4e1f39a776d86d582b7348ff53bf432b987fca8",
    name: "jcg6eaxxhpmxnxsoobepjypttj3w3bwvqk3tjd7vhp2dfomh7sua",
  },
  {
    what: "hello",
    bytes: text("hello"),
    raw: "bafkr4ihkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow6fin2iiyvreuzzab4",
    drisl: "bafyr4ihkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow6fin2iiyvreuzzab4",
    digest: "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
    name: "5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq",
  },
];

for (const vector of VECTORS) {
  Deno.test(`the address, digest and object name of ${vector.what} are those of the format`, () => {
    const cid = cidOf(vector.bytes);
    assert.equal(cid, vector.raw);
    assert.equal(hex(digestOf(cid)), vector.digest);
    assert.equal(hex(cidBytes(cid)), `01551e20${vector.digest}`);
    assert.equal(objectName(cid), vector.name);
    assert.equal(nameToCid(vector.name), vector.raw);
    const drisl = drislCid(digestOf(cid));
    assert.equal(drisl, vector.drisl);
    assert.equal(rawCid(drisl), cid);
    assert.equal(objectName(drisl), vector.name);
    assert.ok(sameBlob(cid, drisl));
    assert.ok(isDrisl(drisl) && !isDrisl(cid));
    assert.equal(parseCid(vector.raw), vector.raw);
    assert.equal(parseCid(vector.drisl), vector.drisl);
  });
}

const ABC = "bafkr4ideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu";
const REFUSED: Record<string, string> = {
  "nothing": "",
  "upper case": ABC.toUpperCase(),
  "one upper-case letter": ABC.replace("d", "D"),
  "another multibase": "zb2rhe5P4gXftAwvA4eXQ5HJwsER2owDyS9sKaQRRVQPn93bA",
  "a CIDv0": "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
  "a SHA-256 hash": "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
  "a character outside base32": `${ABC.slice(0, -2)}1u`,
  "unused bits that are not zero": `${ABC.slice(0, -1)}v`,
  "one character too few": ABC.slice(0, -1),
  "one character too many": `${ABC}a`,
  "a line feed at the end": `${ABC}\n`,
  "a space in front": ` ${ABC}`,
  "another codec (dag-pb)": `bafybeideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu`,
  "another digest length in the header": ABC.replace("bafkr4id", "bafkr4iz"),
};

for (const [what, refused] of Object.entries(REFUSED)) {
  Deno.test(`a CID with ${what} is refused as invalid_cid`, () => {
    assert.throws(() => parseCid(refused), (error) => isError(error, "invalid_cid"));
    assert.equal(isCid(refused), false);
  });
}

Deno.test("unused last bits are refused for every last character but eight", () => {
  const good = [..."abcdefghijklmnopqrstuvwxyz234567"].filter((c) => isCid(ABC.slice(0, -1) + c));
  assert.deepEqual(good, [..."aeimquy4"]);
});

Deno.test("any digest survives the way to a CID, to an object name, and back", () => {
  fc.assert(fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (digest) => {
    const cid = cidOfDigest(digest);
    assert.equal(parseCid(cid), cid);
    assert.deepEqual([...digestOf(cid)], [...digest]);
    assert.equal(nameToCid(objectName(cid)), cid);
    assert.equal(nameToCid(objectName(drislCid(digest))), cid);
  }));
});

Deno.test("a name that is not the canonical base32 of 32 bytes is no object", () => {
  const name = objectName(cidOf(text("abc")));
  for (const bad of ["", name.slice(1), `${name}a`, `${name.slice(0, -1)}b`, name.toUpperCase()]) {
    assert.equal(nameToCid(bad), null);
  }
});
