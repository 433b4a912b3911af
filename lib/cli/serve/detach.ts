/** @module `sublet serve --detach`: the same server, left running in the background. */

import { EXIT, SubletError } from "../../home/mod.ts";
import { Finished } from "../finished.ts";
import { selfCommand } from "../self.ts";
import { runningServer } from "../server_lock.ts";
import { ApiClient } from "../api_client.ts";
import type { Output } from "../output.ts";
import { readSettings } from "./settings.ts";

/** Start the server, wait until it answers, and print its pid and log. A server that dies says why. */
export async function detach(listen: string | undefined, output: Output): Promise<void> {
  const { paths } = await readSettings(listen);
  const already = await runningServer(paths);
  if (already !== null) {
    throw new SubletError(
      "conflict",
      `a server (pid ${already}) already runs in ${paths.root}: stop it with \`sublet stop\``,
    );
  }
  const [program = "", ...args] = selfCommand([
    "serve",
    ...(listen === undefined ? [] : ["--listen", listen]),
  ]);
  // The shell redirects, so that the log outlives this process.
  const child = new Deno.Command("/bin/sh", {
    args: [
      "-c",
      'log=$1; shift; exec "$@" >>"$log" 2>&1 </dev/null',
      "sh",
      paths.log,
      program,
      ...args,
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
    detached: true,
  }).spawn();
  let ended: number | null = null;
  child.status.then((status) => ended = status.code);
  const before = await Deno.stat(paths.log).then((info) => info.size, () => 0);
  let urls: readonly string[] | null;
  while ((urls = await urlsOf()) === null) {
    if (ended !== null) {
      const log = (await textFrom(paths.log, before)).trim();
      const why = log === "" ? `it ended with ${ended}, and could not write ${paths.log}` : log;
      output.note(`sublet: the server does not start:\n${why.replace(/^sublet: /, "")}`);
      throw new Finished(ended === 0 ? EXIT.failed : ended);
    }
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  child.unref();
  const url = urls.find((one) => !one.startsWith("unix:")) ?? paths.socket;
  output.line(`server ${child.pid} serving on ${url}, log in ${paths.log}`);
}

/** What is in the file `path` from byte `from` on; nothing when it cannot be read. */
async function textFrom(path: string, from: number): Promise<string> {
  try {
    using file = await Deno.open(path);
    await file.seek(from, Deno.SeekMode.Start);
    return await new Response(file.readable).text();
  } catch {
    return "";
  }
}

/** Where the server listens, or null while it does not answer. */
async function urlsOf(): Promise<readonly string[] | null> {
  try {
    using api = await ApiClient.open({ ...Deno.env.toObject(), SUBLET_SERVER: "" });
    const { server } = await api.call<{ server: { urls: string[] } }>("GET", "/v1/status");
    return server.urls;
  } catch {
    return null;
  }
}
