/** @module Following a stream of a job: what it has written, and what it writes, until it is over. */

import type { ApiClient } from "./api_client.ts";
import { Patience } from "./patience.ts";

/** Bytes of a stream. */
export interface Piece {
  /** Where they start, and where to go on. */
  readonly from: number;
  readonly next: number;
  readonly bytes: Uint8Array;
  /** Nothing follows. */
  readonly over: boolean;
}

/** What to follow. */
export interface Followed {
  readonly job: number;
  readonly stream: string;
  /** The byte to start at. */
  readonly from: number;
  /** A session as text for people, or as its bytes. */
  readonly format: "raw" | "text";
  /** False: only what there is now. Default true. */
  readonly wait?: boolean;
}

/** The longest that one call waits for more, seconds. */
const WAIT = 20;

/** One read of a stream, which waits up to `wait` seconds for bytes. */
export async function readStream(
  api: ApiClient,
  { job, stream, from, format }: Followed,
  wait: number,
): Promise<Piece> {
  const path = stream.split("/").map(encodeURIComponent).join("/");
  const query = new URLSearchParams({ from: String(from), wait: String(wait), format });
  const { bytes, headers } = await api.answer("GET", `/v1/jobs/${job}/streams/${path}?${query}`);
  return {
    from: Number(headers.get("sublet-from") ?? from),
    next: Number(headers.get("sublet-next") ?? from + bytes.length),
    bytes,
    over: headers.get("sublet-over") === "true",
  };
}

/** Everything of a stream from its start on, piece by piece, until it is over. A server that restarts is waited for. */
export async function* followStream(api: ApiClient, of: Followed): AsyncGenerator<Piece> {
  const patience = new Patience();
  let { from } = of;
  while (true) {
    const wait = of.wait === false ? 0 : WAIT;
    const piece = await patience.ask(() => readStream(api, { ...of, from }, wait));
    if (piece === null) continue;
    const stands = piece.next === from;
    from = piece.next;
    if (!stands || piece.over) yield piece;
    if (piece.over || (stands && of.wait === false)) return;
  }
}
