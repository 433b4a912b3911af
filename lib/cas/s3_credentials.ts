/**
 * @module Credentials of AWS, from where its own tools look for them: the environment, a token of a web identity, the
 * profile (`~/.aws`), the container's and the machine's metadata services.
 */

import { SubletError } from "../home/mod.ts";
import type { AwsKeys, KeyContext } from "./s3_keys.ts";
import { containerKeys, machineKeys } from "./s3_metadata.ts";
import { type Profile, Profiles } from "./s3_profile.ts";
import { assumeRole, assumeRoleWithToken } from "./s3_roles.ts";
import { runCredentialProcess } from "./s3_process.ts";

/** So long before they expire, keys are asked for anew, in milliseconds. */
const EARLY_MS = 5 * 60 * 1000;

/** How deep profiles may name others. */
const MAX_CHAIN = 5;

/** The keys of this machine, which are found when they are first needed, and again before they expire. */
export class AwsCredentials {
  readonly #context: KeyContext;
  #keys: AwsKeys | null = null;
  #asking: Promise<AwsKeys> | null = null;

  constructor(context: KeyContext) {
    this.#context = context;
  }

  /** Throws `config` when there are none, with where they were looked for. */
  async keys(): Promise<AwsKeys> {
    const { clock } = this.#context;
    if (this.#keys !== null && clock.now() < (this.#keys.expiresAt ?? Infinity) - EARLY_MS) {
      return this.#keys;
    }
    this.#asking ??= this.#find().finally(() => this.#asking = null);
    try {
      return this.#keys = await this.#asking;
    } catch (error) {
      // Those at hand are good for some minutes, and the source may be back by then.
      if (this.#keys === null || clock.now() > (this.#keys.expiresAt ?? Infinity)) throw error;
      return this.#keys;
    }
  }

  /** `keys` were refused: find out whether there are others by now. */
  async renew(keys: AwsKeys): Promise<boolean> {
    if (this.#keys === keys) this.#keys = null;
    const others = await this.keys();
    return others.accessKeyId !== keys.accessKeyId || others.sessionToken !== keys.sessionToken;
  }

  async #find(): Promise<AwsKeys> {
    const context = this.#context;
    const { env } = context;
    const fixed = fixedKeys((name) => env[name.toUpperCase()]);
    if (fixed !== null) return fixed;
    if (env.AWS_WEB_IDENTITY_TOKEN_FILE && env.AWS_ROLE_ARN) {
      return await assumeRoleWithToken(context, {
        role: env.AWS_ROLE_ARN,
        tokenFile: env.AWS_WEB_IDENTITY_TOKEN_FILE,
        session: env.AWS_ROLE_SESSION_NAME,
      });
    }
    const profiles = await Profiles.read(env);
    const profile = profiles.chosen(env);
    const found = profile === null ? null : await profileKeys(context, profiles, profile);
    const last = found ?? await containerKeys(context) ?? await machineKeys(context);
    if (last !== null) return last;
    throw new SubletError(
      "config",
      "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in " +
        "~/.aws (AWS_PROFILE), or run where the machine or the container has a role",
    );
  }
}

function fixedKeys(of: (name: string) => string | undefined): AwsKeys | null {
  const accessKeyId = of("aws_access_key_id")?.trim();
  const secretAccessKey = of("aws_secret_access_key")?.trim();
  const sessionToken = of("aws_session_token")?.trim();
  if (!accessKeyId || !secretAccessKey) return null;
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken ? { sessionToken } : {}),
    expiresAt: null,
  };
}

/** The keys of `profile`, or null when it has none. */
async function profileKeys(
  context: KeyContext,
  profiles: Profiles,
  profile: Profile,
  depth = 0,
): Promise<AwsKeys | null> {
  if (depth > MAX_CHAIN) {
    throw new SubletError("config", "AWS profiles name each other in a ring: check source_profile");
  }
  const role = profile.get("role_arn");
  if (role !== undefined) {
    const session = profile.get("role_session_name");
    const tokenFile = profile.get("web_identity_token_file");
    if (tokenFile !== undefined) {
      return await assumeRoleWithToken(context, { role, tokenFile, session });
    }
    const keys = await sourceKeys(context, profiles, profile, depth);
    return await assumeRole(context, keys, {
      role,
      session,
      externalId: profile.get("external_id"),
    });
  }
  const fixed = fixedKeys((name) => profile.get(name));
  if (fixed !== null) return fixed;
  const command = profile.get("credential_process");
  if (command !== undefined) return await runCredentialProcess(command);
  if (profile.has("sso_session") || profile.has("sso_start_url")) {
    throw new SubletError(
      "config",
      "the AWS profile signs in with SSO, which sublet does not do itself: add `credential_process = aws configure " +
        "export-credentials --profile NAME` to a profile, and name that in AWS_PROFILE",
    );
  }
  return null;
}

/** The keys that a role is taken with. */
async function sourceKeys(
  context: KeyContext,
  profiles: Profiles,
  profile: Profile,
  depth: number,
): Promise<AwsKeys> {
  const name = profile.get("source_profile");
  const source = profile.get("credential_source");
  let keys: AwsKeys | null = null;
  if (name !== undefined) {
    const other = profiles.named(name);
    // A profile may name itself: then its own keys are meant.
    keys = other === profile
      ? fixedKeys((key) => profile.get(key))
      : await profileKeys(context, profiles, other, depth + 1);
  } else if (source === "Environment") keys = fixedKeys((key) => context.env[key.toUpperCase()]);
  else if (source === "EcsContainer") keys = await containerKeys(context);
  else if (source === "Ec2InstanceMetadata") keys = await machineKeys(context);
  if (keys !== null) return keys;
  throw new SubletError(
    "config",
    `the AWS profile takes a role, but ${
      name ?? source ?? "it names no source_profile, which"
    } has no credentials`,
  );
}
