/** @module The tables of the providers `s3` and `gcs`. */

import * as z from "zod";
import { cleanPrefix, parseS3Url } from "./s3_endpoint.ts";

/** Classes of S3 whose objects have to be restored before they can be read. */
const ARCHIVES = ["GLACIER", "DEEP_ARCHIVE"];

const GCS_CLASSES = ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"] as const;

const text = (what: string) => z.string({ error: `must be ${what}` }).min(1, `must be ${what}`);

/** `[plugins.cas]` with `provider = "s3"`. */
export const s3Table = z.strictObject({
  provider: z.literal("s3"),
  url: text("s3://bucket[/prefix]").refine(
    (url) => parseS3Url(url) !== null,
    "must be s3://bucket[/prefix]",
  ),
  // Servers other than AWS have classes of their own.
  storage_class: text("a storage class, such as GLACIER_IR or STANDARD").regex(
    /^[A-Z0-9_]{1,64}$/,
    "must be a storage class, such as GLACIER_IR or STANDARD",
  ).refine(
    (name) => !ARCHIVES.includes(name),
    "its objects cannot be read before they were restored: use GLACIER_IR, or STANDARD",
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
  storage_class: z.enum(GCS_CLASSES, { error: `must be one of ${GCS_CLASSES.join(", ")}` })
    .optional(),
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
