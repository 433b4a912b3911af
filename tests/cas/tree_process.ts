/** @module Run by tests in a process of its own: puts the tree at `cid` of the store at `store` in place, again and again. */

import {
  isCid,
  Manifests,
  materialise,
  openDisk,
  placeTree,
  SharedInputs,
} from "../../lib/cas/mod.ts";

const [what, store = "", cid = "", base = "", rounds = "1"] = Deno.args;
if (!isCid(cid)) throw new Error("no CID");
await using cas = await openDisk({ path: store });
console.log("begun");
if (what === "place") await placeTree(cas, cid, base);
else {
  const shared = new SharedInputs(cas, `${base}/inputs`);
  const tree = await new Manifests(cas, { shared, large: 10 }).open(cid);
  const files: number[] = [];
  for (let round = 0; round < Number(rounds); round++) {
    const root = `${base}/${what}`;
    await Deno.mkdir(root, { recursive: true });
    const placed = await materialise(tree, root, "", shared);
    const changed = await Array.fromAsync(placed.changes());
    files.push(placed.files - changed.length);
    if (round < Number(rounds) - 1) await Deno.remove(root, { recursive: true });
  }
  console.log(JSON.stringify(files));
}
