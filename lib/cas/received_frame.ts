/** @module A blob that arrives as one zstd frame: received to a file, decoded and hashed, then kept as it is if it may be. */

import { isError, SubletError } from "../home/mod.ts";
import { createHasher } from "./blake3.ts";
import { orBrokenOff } from "./broken_off.ts";
import { cidOfDigest } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { fileError, readPieces } from "./files.ts";
import type { Served } from "./http_get.ts";
import type { Gate, Transfer } from "./http_limits.ts";
import { checkAddress, checkGrowth, checkLength } from "./limits.ts";
import { decode, decodeSmall } from "./object_decode.ts";
import { collect, drain, streamFrom } from "./streams.ts";
import { HEADER_MAX, parseHeader } from "./zstd_frame.ts";

/** Frames up to this size, of blobs up to the second, are decoded in memory. */
const SMALL = 64 * 1024;
const SMALL_DECODED = 1024 * 1024;

/** A frame on its way. */
export interface Arriving {
  readonly cid: Cid;
  /** Bytes of the frame. */
  readonly length: number;
  readonly transfer: Transfer;
}

/** Store the blob whose frame is `body`. Throws `invalid_request` for what is not exactly one frame. */
export async function receiveFrame(
  cas: Served,
  gate: Gate,
  body: ReadableStream<Uint8Array> | null,
  arriving: Arriving,
): Promise<void> {
  const { cid, length, transfer } = arriving;
  const limits: Limits = {
    expectedLength: length,
    expectedCid: cid,
    preventCancel: true,
    signal: transfer.signal,
    progress: (bytes) => transfer.progress(bytes),
  };
  const source = body ?? new Blob([]).stream();
  if (length <= SMALL) {
    const frame = await orBrokenOff(cid, transfer, () => collect(source, limits));
    const data = await refusing(cid, () => {
      checkAnnounced(frame, gate, cid);
      return decodeSmall(frame, SMALL_DECODED)?.slice() ?? null;
    });
    if (data !== null) {
      await cas.put(data, { expectedCid: cid });
      return;
    }
    return await storeFrame(cas, gate, cid, new Blob([frame]).stream(), {}, transfer);
  }
  await storeFrame(cas, gate, cid, source, limits, transfer);
}

async function storeFrame(
  cas: Served,
  gate: Gate,
  cid: Cid,
  source: ReadableStream<Uint8Array>,
  limits: Limits,
  transfer: Transfer,
): Promise<void> {
  const path = await makeTemp(cas.staging);
  try {
    await orBrokenOff(cid, transfer, () => writeAll(path, source, limits));
    const announced = await refusing(
      cid,
      async () => checkAnnounced(await startOf(path), gate, cid),
    );
    const content = () => decode(() => readPieces(path));
    if (announced === null || cas.adopt === undefined) {
      await refusing(
        cid,
        () => cas.putStream(streamFrom(content()), { expectedCid: cid, maxBytes: gate.maxDecoded }),
      );
      return;
    }
    const hasher = createHasher();
    let length = 0;
    await refusing(cid, async () => {
      for await (const bytes of content()) {
        length += bytes.length;
        checkGrowth(length, { expectedCid: cid, expectedLength: announced });
        hasher.update(bytes);
      }
      checkLength(length, { expectedCid: cid, expectedLength: announced });
    });
    checkAddress(cidOfDigest(hasher.digest()), { expectedCid: cid });
    await cas.adopt(cid, path, length);
  } finally {
    await Deno.remove(path).catch(() => {});
  }
}

/** What `work` gives; a frame that cannot be decoded is the sender's mistake. */
async function refusing<T>(cid: Cid, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isError(error, "integrity")) throw error;
    throw new SubletError(
      "invalid_request",
      `the body that was sent for blob ${cid} is not exactly one zstd frame: ${error.message}`,
      { cause: error },
    );
  }
}

/** The length that the frame's header announces, or null. Throws `too_large` when that is beyond the bounds. */
function checkAnnounced(start: Uint8Array, gate: Gate, cid: Cid): number | null {
  const length = parseHeader(start.subarray(0, HEADER_MAX))?.contentSize ?? null;
  if (length !== null && length > gate.maxDecoded) {
    throw new SubletError(
      "too_large",
      `blob ${cid} has ${length} bytes, and one that is sent compressed may have ${gate.maxDecoded}: ` +
        "send it as it is",
    );
  }
  return length;
}

async function makeTemp(directory: string | undefined): Promise<string> {
  try {
    return await Deno.makeTempFile({
      ...(directory === undefined ? {} : { dir: directory }),
      suffix: ".frame",
    });
  } catch (error) {
    throw fileError(error, "cannot make a temporary file", "unavailable");
  }
}

async function writeAll(
  path: string,
  source: ReadableStream<Uint8Array>,
  limits: Limits,
): Promise<void> {
  using file = await Deno.open(path, { write: true });
  await drain(source, limits, async (bytes) => {
    try {
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${path}`, "unavailable");
    }
  });
}

async function startOf(path: string): Promise<Uint8Array> {
  using file = await Deno.open(path);
  const start = new Uint8Array(HEADER_MAX);
  return start.subarray(0, await file.read(start) ?? 0);
}
