/** @module Roles of AWS, taken from its service STS. */

import { type Env, SubletError } from "../home/mod.ts";
import { fileError } from "./files.ts";
import { ask, type AwsKeys, type KeyContext } from "./s3_keys.ts";
import { checkEndpoint } from "./s3_endpoint.ts";
import { signed } from "./s3_sign.ts";
import { elementOf } from "./s3_xml.ts";

const VERSION = "2011-06-15";

/** Where roles are taken. */
export function stsUrl(env: Env, region: string): URL {
  const own = env.AWS_ENDPOINT_URL_STS || env.AWS_ENDPOINT_URL;
  if (own) return new URL(checkEndpoint("AWS_ENDPOINT_URL_STS", own));
  return new URL(`https://sts.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}/`);
}

const FORM = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };

/** Take a role with a token that another service signed (Kubernetes, a CI). */
export async function assumeRoleWithToken(
  context: KeyContext,
  { role, tokenFile, session }: { role: string; tokenFile: string; session: string | undefined },
): Promise<AwsKeys> {
  const token = await Deno.readTextFile(tokenFile).catch((error) =>
    Promise.reject(
      fileError(error, `cannot read the token of the AWS role, ${tokenFile}`, "unavailable"),
    )
  );
  const form = new URLSearchParams({
    Action: "AssumeRoleWithWebIdentity",
    Version: VERSION,
    RoleArn: role,
    RoleSessionName: session ?? "sublet",
    WebIdentityToken: token.trim(),
  });
  return await takeRole(context, role, form, (body) => ({ method: "POST", headers: FORM, body }));
}

/** Take a role with other keys. */
export async function assumeRole(
  context: KeyContext,
  keys: AwsKeys,
  options: { role: string; session: string | undefined; externalId: string | undefined },
): Promise<AwsKeys> {
  const { role, session, externalId } = options;
  const form = new URLSearchParams({
    Action: "AssumeRole",
    Version: VERSION,
    RoleArn: role,
    RoleSessionName: session ?? "sublet",
    ...(externalId === undefined ? {} : { ExternalId: externalId }),
  });
  const { region } = context;
  return await takeRole(context, role, form, async (body, url) => {
    const at = context.clock.now();
    const headers = await signed({ method: "POST", url, headers: FORM, body }, keys, {
      service: "sts",
      region,
      at,
    });
    return { method: "POST", headers, body };
  });
}

type StsRequest = { method: string; headers: Record<string, string>; body: Uint8Array };

async function takeRole(
  context: KeyContext,
  role: string,
  form: URLSearchParams,
  request: (body: Uint8Array<ArrayBuffer>, url: URL) => StsRequest | Promise<StsRequest>,
): Promise<AwsKeys> {
  const url = stsUrl(context.env, context.region);
  const body = new TextEncoder().encode(form.toString());
  const what = `the AWS role ${role}`;
  const { status, text } = await ask(context, what, url, await request(body, url));
  const part = (name: string) => elementOf(text, name);
  const [id, secret, token] = [part("AccessKeyId"), part("SecretAccessKey"), part("SessionToken")];
  if (status !== 200 || id === null || secret === null || token === null) {
    const why = part("Message") ?? `${url.host} answered ${status}`;
    throw new SubletError("config", `${what} was not given: ${why}. Check the role's trust policy`);
  }
  const expiresAt = Date.parse(part("Expiration") ?? "");
  return {
    accessKeyId: id,
    secretAccessKey: secret,
    sessionToken: token,
    expiresAt: Number.isNaN(expiresAt) ? context.clock.now() + 15 * 60 * 1000 : expiresAt,
  };
}
