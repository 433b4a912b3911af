/** @module `sublet cas serve | put | get | check | gc | pin | unpin | pins | status`. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { addCheck } from "./cas_check.ts";
import { addGc } from "./cas_gc.ts";
import { addStatus } from "./cas_status.ts";
import { Output } from "./output.ts";

/** Add the commands. */
export function addCas(root: Command): void {
  const cas = root.command("cas").description(
    "The content-addressed store of this home, and its HTTP service.",
  );
  addServe(cas);
  addPut(cas);
  addGet(cas);
  addCheck(cas);
  addGc(cas);
  addStatus(cas);
}

function addServe(cas: Command): void {
  cas.command("serve")
    .description("Serve this home's store over HTTP, to tokens of access `worker`.")
    .requiredOption(
      "--listen <host:port>",
      "where to listen; off loopback it needs tls in [plugins.network]",
    )
    .action(async (options) => {
      const { serveCas } = await import("./cas_serve.ts");
      await serveCas(options.listen, new Output());
    });
}

function addPut(cas: Command): void {
  cas.command("put")
    .description("Store files, and print the CID of each; of a directory, that of its manifest.")
    .argument("<file...>", "files and directories; - is standard input")
    .action(async (files) => {
      const output = new Output();
      await using home = await openStore();
      for (const file of files) {
        if (file === "-") output.line(await home.cas.putStream(Deno.stdin.readable));
        else if (await isDirectory(file)) {
          const { putTree } = await import("./cas_tree.ts");
          output.line(await putTree(home, file, output));
        } else output.line(await home.cas.putFile(file));
      }
    });
}

function addGet(cas: Command): void {
  cas.command("get")
    .description("Write a blob to a file, or to standard output.")
    .argument("<cid>", "the blob's address")
    .argument("[file]", "where to write it")
    .option(
      "--tree",
      "the blob is a manifest: write its files into the new or empty directory <file>",
    )
    .action(async (text, file, options) => {
      const { parseCid } = await import("../cas/mod.ts");
      const cid = parseCid(text);
      await using home = await openStore();
      if (options.tree) {
        if (file === undefined) throw new SubletError("usage", "--tree: name the directory, too");
        const { getTree } = await import("./cas_tree.ts");
        return await getTree(home, cid, file, new Output());
      }
      // A device or a pipe is written to: a file takes the place of a file alone.
      const device = file === undefined ? null : await deviceAt(file);
      if (file !== undefined && device === null) {
        if (await home.cas.getFile(cid, file) === null) throw lacking(text);
        return;
      }
      const blob = await home.cas.getStream(cid);
      if (blob === null) throw lacking(text);
      if (device !== null) return await blob.stream.pipeTo(device);
      const output = new Output();
      for await (const chunk of blob.stream) output.bytes(chunk);
    });
}

async function isDirectory(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isDirectory, () => false);
}

/** Where to write to `file` when it is there and neither a file nor a directory; else null. */
async function deviceAt(file: string): Promise<WritableStream<Uint8Array> | null> {
  const info = await Deno.stat(file).catch(() => null);
  if (info === null || info.isFile || info.isDirectory) return null;
  return (await Deno.open(file, { write: true })).writable;
}

function lacking(cid: string): SubletError {
  return new SubletError("not_found", `the store holds no blob ${cid}`);
}

/** This home's store, whose code is loaded only now. */
async function openStore() {
  return await (await import("./home_cas.ts")).openHomeCas();
}
