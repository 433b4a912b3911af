/** @module What a process that may do little must be allowed, so that it can use a bucket. */

import type * as z from "zod";
import type { Env } from "../home/mod.ts";
import { proxyFor } from "../net/mod.ts";
import { wellKnownFile } from "./gcs_credentials.ts";
import type { gcsTable, s3Table } from "./objects_tables.ts";
import { bucketUrl, parseS3Url } from "./s3_endpoint.ts";
import { profileFiles } from "./s3_profile.ts";
import { stsUrl } from "./s3_roles.ts";
import { s3Settings } from "./s3_settings.ts";

/** What has to be allowed. */
export interface Reach {
  /** `host:port` each. */
  readonly net: readonly string[];
  /** Paths of files that are read. */
  readonly read: readonly string[];
  /** The variables that matter, for a process that may not read its environment. */
  readonly env: Readonly<Record<string, string>>;
}

const VARIABLES =
  /^(AWS_\w+|GOOGLE_APPLICATION_CREDENTIALS|CLOUDSDK_CONFIG|GCE_METADATA_HOST|STORAGE_EMULATOR_HOST|SSL_CERT_FILE|HOME|USERPROFILE|APPDATA|(HTTPS?|ALL|NO)_PROXY)$/i;

/** What the bucket of `table` takes. `absolute` makes a path of the table one. Throws `config`. */
export async function reachOf(
  table: z.output<typeof s3Table> | z.output<typeof gcsTable>,
  env: Env,
  absolute: (path: string) => string,
): Promise<Reach> {
  const { urls, files } = table.provider === "s3"
    ? await ofS3(table.url, env)
    : ofGcs(table.credentials_file, env, absolute);
  const net = urls.filter((url) => URL.canParse(url)).map((url) => addressOf(new URL(url), env));
  const read = [...files, env.SSL_CERT_FILE].filter((path) => path !== undefined && path !== "");
  const named = Object.entries(env).filter(([name, value]) =>
    VARIABLES.test(name) && value !== undefined
  );
  return {
    net: [...new Set(net)],
    read: [...new Set(read as string[])],
    env: Object.fromEntries(named as [string, string][]),
  };
}

/** The address that is dialed for `url`: its own, or that of the proxy. */
function addressOf(url: URL, env: Env): string {
  const proxy = proxyFor(url, env);
  const dialed = proxy === null ? url : new URL(proxy);
  return `${dialed.hostname}:${dialed.port || (dialed.protocol === "https:" ? "443" : "80")}`;
}

interface Needed {
  readonly urls: string[];
  readonly files: (string | undefined)[];
}

async function ofS3(url: string, env: Env): Promise<Needed> {
  const { bucket = "" } = parseS3Url(url) ?? {};
  const { region, endpoint } = await s3Settings(env);
  const { config, credentials } = profileFiles(env);
  return {
    urls: [
      bucketUrl(bucket, region, endpoint).href,
      stsUrl(env, region).href,
      env.AWS_EC2_METADATA_SERVICE_ENDPOINT || "http://169.254.169.254",
      "http://169.254.170.2",
      env.AWS_CONTAINER_CREDENTIALS_FULL_URI ?? "",
    ],
    files: [
      ...[config, credentials, env.AWS_WEB_IDENTITY_TOKEN_FILE],
      env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE,
    ],
  };
}

function ofGcs(file: string | undefined, env: Env, absolute: (path: string) => string): Needed {
  const own = env.STORAGE_EMULATOR_HOST;
  const emulator = !own ? "" : own.includes("://") ? own : `http://${own}`;
  return {
    urls: [
      emulator || "https://storage.googleapis.com",
      "https://oauth2.googleapis.com",
      "https://sts.googleapis.com",
      "https://iamcredentials.googleapis.com",
      `http://${env.GCE_METADATA_HOST || "metadata.google.internal"}`,
    ],
    files: [
      file === undefined ? undefined : absolute(file),
      env.GOOGLE_APPLICATION_CREDENTIALS,
      wellKnownFile(env),
    ],
  };
}
