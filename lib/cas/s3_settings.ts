/** @module Where the environment and the profile say that S3 is. */

import type { Env } from "../home/mod.ts";
import { checkEndpoint } from "./s3_endpoint.ts";
import { Profiles } from "./s3_profile.ts";

/** Where S3 is. */
export interface S3Settings {
  readonly region: string;
  /** Instead of AWS. */
  readonly endpoint: string | null;
}

/** What `env` and its profile say. Throws `config` for a profile that is lacking, or an endpoint that is no URL. */
export async function s3Settings(env: Env): Promise<S3Settings> {
  const profile = (await Profiles.read(env)).chosen(env);
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || profile?.get("region") || "us-east-1";
  const named = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || profile?.get("endpoint_url");
  return { region, endpoint: named ? checkEndpoint("AWS_ENDPOINT_URL", named) : null };
}
