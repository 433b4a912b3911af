/** @module `sublet job logs`: what a job wrote, and with -f what it writes. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";
import { readStream } from "./follow_stream.ts";
import { Output, plainCell } from "./output.ts";
import { integer } from "./parse.ts";
import { Patience } from "./patience.ts";

/** How long one file alone is waited for, seconds, and until several are looked at again, milliseconds. */
const WAIT = 20;
const LOOK_MS = 500;

/** A stream in the API's list. */
interface StreamView {
  readonly stream: string;
  readonly kind: "session" | "log";
  readonly over: boolean;
}

/** Add the command. */
export function addLogs(job: Command): void {
  job.command("logs")
    .description("Print a job's log files, or list them.")
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .argument("[file]", "one file's path, as --list prints it (default: every one)")
    .option("-f, --follow", "print what comes, until the job ends")
    .option("--list", "list the files")
    .option("--json", "with --list: print one JSON document")
    .action(async (id, file, options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      if (options.follow === true) return await followLogs(api, output, id, file);
      const { files } = await api.call<{ files: Record<string, string> }>(
        "GET",
        `/v1/jobs/${id}/logs`,
      );
      if (options.list === true) {
        if (output.json) return output.document(files);
        return output.table(
          ["file", "cid"],
          Object.entries(files).map(([path, cid]) => [path, cid]),
        );
      }
      const paths = file === undefined ? Object.keys(files).sort() : [file];
      if (paths.length === 0) {
        output.note(
          `job ${id} has no log files yet: they come with its report, and -f shows them as they are written`,
        );
      }
      for (const path of paths) {
        if (files[path] === undefined) {
          throw new SubletError(
            "not_found",
            `job ${id} has no log file ${path}: \`sublet job logs ${id} --list\` lists them`,
          );
        }
        if (paths.length > 1) output.note(`==> ${plainCell(path)} <==`);
        const escaped = path.split("/").map(encodeURIComponent).join("/");
        output.bytes(await api.raw("GET", `/v1/jobs/${id}/logs/${escaped}`));
      }
    });
}

/** Print the logs of a job as they are written: all of them, or `only` one. */
async function followLogs(
  api: ApiClient,
  output: Output,
  job: number,
  only: string | undefined,
): Promise<void> {
  const patience = new Patience();
  const seen = new Map<string, { next: number; over: boolean }>();
  let last: string | null = null;
  while (true) {
    const streams = await patience.ask(() => logStreams(api, job, only));
    if (streams === null) continue;
    let printed = false;
    for (const { stream } of streams) {
      const at = seen.get(stream) ?? { next: 0, over: false };
      if (at.over) continue;
      const wait = only === undefined ? 0 : WAIT;
      const piece = await patience.ask(() =>
        readStream(api, { job, stream, from: at.next, format: "raw" }, wait)
      );
      if (piece === null) continue;
      seen.set(stream, { next: piece.next, over: piece.over });
      if (piece.bytes.length === 0) continue;
      printed = true;
      if (stream !== last && only === undefined) output.note(`==> ${plainCell(stream)} <==`);
      if (piece.from > at.next && at.next > 0) {
        output.note(`(${piece.from - at.next} bytes are not kept)`);
      }
      last = stream;
      output.bytes(piece.bytes);
    }
    if (streams.length > 0 && streams.every(({ stream }) => seen.get(stream)?.over)) return;
    if (streams.length === 0 && await hasEnded(api, job)) {
      return output.note(`job ${job} left no log files`);
    }
    if (!printed) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

async function logStreams(
  api: ApiClient,
  job: number,
  only: string | undefined,
): Promise<readonly Pick<StreamView, "stream">[]> {
  const { streams } = await api.call<{ streams: readonly StreamView[] }>(
    "GET",
    `/v1/jobs/${job}/streams`,
  );
  if (only === undefined) return streams.filter(({ kind }) => kind === "log");
  return [{ stream: only }];
}

async function hasEnded(api: ApiClient, job: number): Promise<boolean> {
  const { state } = await api.call<{ state: string }>("GET", `/v1/jobs/${job}`);
  return state !== "open";
}
