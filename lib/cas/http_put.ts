/** @module The store's HTTP service: a blob that arrives in one request. */

import { SubletError } from "../home/mod.ts";
import { brokenOff, orBrokenOff } from "./broken_off.ts";
import type { Cid } from "./contract.ts";
import { isZstd } from "./http_encoding.ts";
import type { Served } from "./http_get.ts";
import { type Gate, type Transfer } from "./http_limits.ts";
import { receiveFrame } from "./received_frame.ts";

/** Blobs up to this size are received into memory. */
const SMALL = 64 * 1024;

/** Store the blob `cid` from the body of `request`. Throws what the refusal says. */
export async function receive(
  cas: Served,
  gate: Gate,
  request: Request,
  cid: Cid,
  token: string,
): Promise<void> {
  const zstd = isZstd(request.headers.get("content-encoding"));
  const length = announced(request, cid);
  if (!zstd && length <= SMALL && gate.free) return await small(cas, request, cid, length, gate);
  using transfer = gate.begin(token, true);
  using space = await gate.reserve(length, `blob ${cid}`);
  if (zstd) {
    return await receiveFrame(cas, gate, request.body, { cid, length, transfer });
  }
  if (length <= SMALL || request.body === null) {
    const data = await arrived(request, transfer, cid);
    transfer.count(data.length);
    await cas.put(data, { expectedCid: cid, expectedLength: length });
    return;
  }
  await orBrokenOff(cid, transfer, () =>
    cas.putStream(request.body as ReadableStream<Uint8Array>, {
      expectedCid: cid,
      expectedLength: length,
      preventCancel: true,
      signal: transfer.signal,
      progress: (bytes) => {
        space.arrived(bytes);
        return transfer.progress(bytes);
      },
    }));
}

/** A small body, of which nothing is counted but that it comes in time. */
async function small(
  cas: Served,
  request: Request,
  cid: Cid,
  length: number,
  gate: Gate,
): Promise<void> {
  gate.checkSize(length, `blob ${cid}`);
  using transfer = gate.watch();
  const data = await arrived(request, transfer, cid);
  await cas.put(data, { expectedCid: cid, expectedLength: length });
}

/** The whole body of `request`, if it comes in time. */
async function arrived(
  request: Request,
  transfer: Pick<Transfer, "signal">,
  cid: Cid,
): Promise<Uint8Array<ArrayBuffer>> {
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  const { signal } = transfer;
  signal.addEventListener("abort", () => late.reject(signal.reason), { once: true });
  try {
    return new Uint8Array(await Promise.race([request.arrayBuffer(), late.promise]));
  } catch (error) {
    throw signal.aborted ? signal.reason : brokenOff(cid, error);
  }
}

function announced(request: Request, cid: Cid): number {
  const header = request.headers.get("content-length");
  if (header !== null && /^\d+$/.test(header)) return Number(header);
  throw new SubletError(
    "length_required",
    `blob ${cid}: send its length as Content-Length; a chunked upload is not taken`,
  );
}
