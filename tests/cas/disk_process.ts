/** @module Run by tests in a process of its own: what a disk store does when the system refuses it something. */

import { type Cas, openDisk } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";

const [what, root = ""] = Deno.args;
const cas: Cas = await openDisk({ path: root });
const small = new TextEncoder().encode("a small blob");
const large = crypto.getRandomValues(new Uint8Array(60_000));

const codeOf = (work: Promise<unknown>) =>
  work.then(() => "fine", (error) => error instanceof SubletError ? error.code : String(error));

const endless = () =>
  new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(large.slice()),
  });

if (what === "no files left") {
  const cid = await cas.put(small);
  const held: Deno.FsFile[] = [];
  try {
    while (true) held.push(Deno.openSync("/dev/null"));
  } catch {
    // That was the last.
  }
  const codes = [
    await codeOf(cas.get(cid)),
    await codeOf(cas.getStream(cid)),
    await codeOf(cas.put(large)),
    await codeOf(cas.putStream(endless(), { maxBytes: 1_000_000 })),
  ];
  for (const file of held) file.close();
  codes.push(await codeOf(cas.get(cid)), await codeOf(cas.put(large)));
  console.log(codes.join(" "));
} else if (what === "small puts") {
  // One line for each blob that is stored, until it is killed.
  await Promise.all(Array.from({ length: 32 }, async () => {
    while (true) {
      const cid = await cas.put(crypto.getRandomValues(new Uint8Array(1024)));
      Deno.stdout.writeSync(new TextEncoder().encode(`${cid}\n`));
    }
  }));
} else if (what === "file size limit") {
  console.log(await codeOf(cas.putStream(endless())), await codeOf(cas.put(small)));
} else {
  let sent = 0;
  const source = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent++ < 100) return controller.enqueue(large.slice());
      console.log("midway");
      return new Promise(() => {});
    },
  });
  await cas.putStream(source);
}
