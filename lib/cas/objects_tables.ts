/** @module The tables of the providers `s3` and `gcs`. */

import * as z from "zod";
import { cleanPrefix, parseS3Url } from "./s3_endpoint.ts";

/** Classes of S3 whose objects can be read at once. */
const S3_CLASSES = [
  "STANDARD",
  "STANDARD_IA",
  "ONEZONE_IA",
  "INTELLIGENT_TIERING",
  "GLACIER_IR",
  "REDUCED_REDUNDANCY",
  "EXPRESS_ONEZONE",
] as const;

const GCS_CLASSES = ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"] as const;

const oneOf = <T extends string>(classes: readonly T[], more = "") =>
  z.enum(classes as readonly [T, ...T[]], { error: `must be one of ${classes.join(", ")}${more}` });

const text = (what: string) => z.string({ error: `must be ${what}` }).min(1, `must be ${what}`);

/** `[plugins.cas]` with `provider = "s3"`. */
export const s3Table = z.strictObject({
  provider: z.literal("s3"),
  url: text("s3://bucket[/prefix]").refine(
    (url) => parseS3Url(url) !== null,
    "must be s3://bucket[/prefix]",
  ),
  storage_class: oneOf(
    S3_CLASSES,
    " (objects of GLACIER and DEEP_ARCHIVE cannot be read before they were restored)",
  ).optional(),
  standard_below: z.int({ error: "must be a number of bytes" })
    .nonnegative("must be a number of bytes").optional(),
});

/** `[plugins.cas]` with `provider = "gcs"`. */
export const gcsTable = z.strictObject({
  provider: z.literal("gcs"),
  bucket: text("the name of a bucket").regex(
    /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/,
    "must be the name of a bucket, without gs:// and without a slash: the rest is the prefix",
  ),
  prefix: z.string({ error: "must be the start of names" }).refine(
    (prefix) => cleanPrefix(prefix) !== null,
    'must be the start of names, without "?", "#" and empty parts, "." and ".."',
  ).optional(),
  storage_class: oneOf(GCS_CLASSES).optional(),
  project: text("the id of a project").optional(),
  credentials_file: text("the path of a key file").optional(),
});

/** Where the bucket of a table is, in one spelling. */
export function bucketWhere(
  table: z.output<typeof s3Table> | z.output<typeof gcsTable>,
): string {
  if (table.provider === "s3") {
    const { bucket = "", prefix = "" } = parseS3Url(table.url) ?? {};
    return `s3://${bucket}/${prefix}`.replace(/\/$/, "");
  }
  return `gs://${table.bucket}/${cleanPrefix(table.prefix ?? "") ?? ""}`.replace(/\/$/, "");
}
