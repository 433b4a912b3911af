/** @module The API's routes of streams: what jobs write, while they run and after. */

import * as z from "zod";
import { type Agents, SESSION_STREAM, type StreamChunk, type Streams } from "../job/mod.ts";
import type { ApiEngine } from "./engine_port.ts";
import { MAX_WAIT } from "./requests.ts";
import { name, Raw, type Route, route } from "./route.ts";
import { idParams, idText, time } from "./schemas.ts";
import { textOf } from "./session_lines.ts";

/** Headers of an answer with bytes of a stream. */
export const STREAM_FROM = "sublet-from";
export const STREAM_NEXT = "sublet-next";
export const STREAM_OVER = "sublet-over";

const streamList = name(
  "StreamList",
  z.object({
    streams: z.array(z.object({
      stream: z.string().describe("`session`, or a log file's path."),
      kind: z.enum(["session", "log"]),
      size: z.int().nullable().describe("Bytes so far; null: not counted."),
      over: z.boolean().describe("Nothing more will come."),
      updated_at: time.nullable(),
    })),
  }),
);

const readQuery = z.object({
  from: z.string().regex(/^\d{1,15}$/, "must be a whole number").transform(Number).optional()
    .describe("The byte to start at. Default 0."),
  wait: z.string().regex(/^\d+(\.\d+)?$/, "must be a number of seconds").transform(Number)
    .pipe(z.number().max(MAX_WAIT, `must be at most ${MAX_WAIT}`)).optional()
    .describe(`Seconds, at most ${MAX_WAIT}, to wait for bytes. Default 0.`),
  format: z.enum(["raw", "text"]).optional()
    .describe("`text`: what the agent says in a session, for people. Default `raw`."),
});

/** What routes of streams are made of. */
export interface StreamRouteDeps {
  readonly streams: Streams;
  readonly agents: Agents;
  readonly engine: ApiEngine;
  /** Aborts when the server stops. */
  readonly closing: AbortSignal;
}

/** The routes of streams. */
export function streamRoutes(deps: StreamRouteDeps): Route[] {
  const { streams } = deps;
  return [
    route({
      method: "get",
      path: "/v1/jobs/{id}/streams",
      access: "read",
      operation: "listStreams",
      summary: "What a job has written so far: an agent's session, and logs.",
      params: idParams,
      answer: streamList,
    }, async ({ params: { id } }) => ({ streams: await streams.list(id) })),
    route({
      method: "get",
      path: "/v1/jobs/{id}/streams/{stream+}",
      access: "read",
      operation: "readStream",
      summary:
        "Bytes of a stream from any offset; with `wait`, once there are some. Headers say where they start " +
        `(\`${STREAM_FROM}\`), where to go on (\`${STREAM_NEXT}\`) and whether nothing will follow (\`${STREAM_OVER}\`).`,
      params: z.object({ id: idText, stream: z.string().max(4096) }),
      query: readQuery,
      answer: "application/octet-stream",
    }, async ({ params: { id, stream }, query, signal }) => {
      const { from = 0, wait = 0, format = "raw" } = query;
      const isText = format === "text" && stream === SESSION_STREAM;
      const of = isText ? await deps.agents.said.formatOf(id) : null;
      const gone = AbortSignal.any([signal, deps.closing]);
      const read = (at: number) => streams.read(id, stream, at);
      const piece = await waitFor(deps, id, wait, gone, async () => {
        const chunk = await read(from);
        return isText ? await textPiece(chunk, of, read) : rawPiece(chunk);
      }, ({ next, over }) => next > from || over);
      return answer(piece);
    }),
  ];
}

/** Bytes of an answer. */
interface Piece extends StreamChunk {
  readonly next: number;
}

function rawPiece(chunk: StreamChunk): Piece {
  return { ...chunk, next: chunk.from + chunk.bytes.length };
}

async function textPiece(
  chunk: StreamChunk,
  format: string | null,
  read: (from: number) => Promise<StreamChunk>,
): Promise<Piece> {
  const { text, next, over } = await textOf(chunk, format, read);
  return { from: chunk.from, bytes: new TextEncoder().encode(text), next, over };
}

/** What `read` gives once it is `enough`, or as it is when the time is over. It is read again when the job comes on. */
async function waitFor<T>(
  { streams, engine }: StreamRouteDeps,
  job: number,
  seconds: number,
  gone: AbortSignal,
  read: () => Promise<T>,
  enough: (value: T) => boolean,
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  while (true) {
    const next = Promise.withResolvers<void>();
    const unsubscribe = streams.subscribe(job, next.resolve);
    const waited = new AbortController();
    try {
      const value = await read();
      const left = (deadline - performance.now()) / 1000;
      if (enough(value) || left <= 0 || gone.aborted) return value;
      const ended = engine.changed(job, left, AbortSignal.any([gone, waited.signal]));
      await Promise.race([next.promise, ended]);
    } finally {
      waited.abort();
      unsubscribe();
    }
  }
}

function answer({ bytes, from, next, over }: Piece): Raw {
  return new Raw(
    new Response(new Uint8Array(bytes), {
      headers: {
        "content-type": "application/octet-stream",
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
        [STREAM_FROM]: String(from),
        [STREAM_NEXT]: String(next),
        [STREAM_OVER]: String(over),
      },
    }),
  );
}
