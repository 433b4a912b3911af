/** @module Credentials from the metadata service of a container (ECS, EKS) or of a machine (EC2, version 2). */

import { isLoopback, SubletError } from "../home/mod.ts";
import { ask, type AwsKeys, type KeyContext, parseKeys } from "./s3_keys.ts";

/** Milliseconds within which a service on this machine answers, if there is one. */
const NEAR_MS = 2_000;

const CONTAINER_HOSTS = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/** The keys of this container's role, or null when the environment names none. */
export async function containerKeys(context: KeyContext): Promise<AwsKeys | null> {
  const { env } = context;
  const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI;
  const full = env.AWS_CONTAINER_CREDENTIALS_FULL_URI;
  if (!relative && !full) return null;
  const url = new URL(relative ? `http://169.254.170.2${relative}` : full ?? "");
  const near = CONTAINER_HOSTS.includes(url.hostname) ||
    isLoopback(url.hostname.replace(/^\[(.*)\]$/, "$1"));
  if (url.protocol !== "https:" && !near) {
    throw new SubletError(
      "config",
      "AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or an address of this machine",
    );
  }
  const file = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE;
  const token = file
    ? (await Deno.readTextFile(file)).trim()
    : env.AWS_CONTAINER_AUTHORIZATION_TOKEN;
  const what = "the container's credentials";
  const { status, text } = await ask(context, what, url, {
    method: "GET",
    headers: token ? { authorization: token } : {},
  });
  if (status === 200) return parseKeys(what, text);
  throw new SubletError("config", `${what}: ${url.host} answered ${status}: check the task's role`);
}

/** The keys of this machine's role, or null when it has none or is no machine of AWS. */
export async function machineKeys(context: KeyContext): Promise<AwsKeys | null> {
  const { env, hosts } = context;
  if (env.AWS_EC2_METADATA_DISABLED?.toLowerCase() === "true") return null;
  const base = env.AWS_EC2_METADATA_SERVICE_ENDPOINT || "http://169.254.169.254";
  let token: string;
  try {
    // Once: on other machines nobody answers, and there is no reason to wait for that.
    const answer = await hosts.send(new URL("/latest/api/token", base), {
      method: "PUT",
      headers: { "x-aws-ec2-metadata-token-ttl-seconds": "300" },
      timeoutMs: NEAR_MS,
    });
    token = new TextDecoder().decode(await answer.bytes());
    if (answer.status !== 200) return null;
  } catch {
    return null;
  }
  const headers = { "x-aws-ec2-metadata-token": token };
  const what = "the machine's credentials";
  const roles = new URL("/latest/meta-data/iam/security-credentials/", base);
  const found = await ask(context, what, roles, { method: "GET", headers });
  const role = found.text.split("\n")[0]?.trim() ?? "";
  if (found.status !== 200 || role === "") return null;
  const url = new URL(encodeURIComponent(role), roles);
  const { status, text } = await ask(context, what, url, { method: "GET", headers });
  return status === 200 ? parseKeys(what, text) : null;
}
