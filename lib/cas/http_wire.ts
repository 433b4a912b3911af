/** @module What the store's HTTP service and its client say to each other, beyond blobs. */

import * as z from "zod";
import { isCid } from "./cid.ts";
import type { Cid } from "./contract.ts";

/** The most addresses of one question. */
export const MAX_CIDS = 10_000;

/** The most bytes of a question's body. */
export const MAX_QUESTION = 1024 * 1024;

/** A header of `HEAD`: the client will put the blob unless it is there undamaged, so it is to be read and checked. */
export const CHECK_HEADER = "sublet-check";

/** A header of an answer whose body is a zstd frame: the length of the blob. */
export const LENGTH_HEADER = "blob-length";

/** The CID of a blob. */
export const cidSchema = z.custom<Cid>(
  (value) => typeof value === "string" && isCid(value),
  "must be the CID of a blob (bafkr4i…)",
);

/** The body of `POST /v1/cas/missing`. */
export const missingQuestion = z.object({ cids: z.array(cidSchema).max(MAX_CIDS) });

/** Its answer: those that are lacking, in order, repeats kept. */
export const missingAnswer = z.object({ missing: z.array(cidSchema).max(MAX_CIDS) });

/** The body of a refusal. */
export const refusal = z.object({ code: z.string(), message: z.string() });

/** The body of `POST /v1/cas/uploads`. */
export const uploadQuestion = z.object({
  cid: cidSchema,
  length: z.number().int().min(0).max(2 ** 50),
});

/** The answer about an upload. Gaps are pairs of where each starts and ends. */
export const uploadState = z.object({
  id: z.string().regex(/^[0-9a-f]{32}$/).optional(),
  complete: z.boolean(),
  part: z.number().int().positive().optional(),
  missing: z.array(z.tuple([z.number().int().min(0), z.number().int().min(0)])),
});
