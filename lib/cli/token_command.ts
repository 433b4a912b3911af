/** @module `sublet token create | list | revoke`. With a server of this home or without one. */

import { type Command, Option } from "@commander-js/extra-typings";
import { messageOf } from "../home/mod.ts";
import type { Access } from "../net/mod.ts";
import type { ApiClient } from "./api_client.ts";
import { either } from "./either.ts";
import { Output } from "./output.ts";
import { duration } from "./parse.ts";

interface TokenView {
  readonly name: string;
  readonly access: Access;
  readonly pool: string | null;
  readonly created_at: string;
  readonly expires_at: string | null;
}

const ACCESS: readonly Access[] = ["worker", "read", "act", "admin"];

/** The home's database, whose code is loaded only when no server answers. */
async function openHome() {
  return await (await import("./home_db.ts")).openHomeDb();
}

/** Say that a pool is not there: it may still be to come, so the token is made all the same. */
async function notePool(api: ApiClient, pool: string): Promise<void> {
  const { pools } = await api.call<{ pools: { pool: string }[] }>("GET", "/v1/pools");
  if (pools.some((each) => each.pool === pool)) return;
  new Output().note(
    `the server has no pool ${pool} (\`sublet pool list\`): add it to its config.toml before a worker joins`,
  );
}

/** Add the commands. */
export function addToken(root: Command): void {
  const token = root.command("token").description(
    "Tokens: who may call the server. Only their hash is kept.",
  );
  token.command("create")
    .description("Make a token and print it, once.")
    .argument("<name>", "who gets it; a worker's token names the worker")
    .addOption(
      new Option("--access <access>", "what it may do").choices(ACCESS).default("worker" as Access),
    )
    .option("--pool <pool>", "a worker's token: only for this pool")
    .option("--expires <duration>", "such as 12h or 30d (default: never)", duration)
    .action(async (name, options) => {
      const access = options.access;
      const pool = options.pool ?? null;
      const expiresAt = options.expires === undefined ? null : Date.now() + options.expires;
      const secret = await either(
        async (api) => {
          const { secret } = await api.call<{ secret: string }>("POST", "/v1/tokens", {
            name,
            access,
            pool,
            expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
          });
          // The secret is shown once: nothing that fails after it was made may lose it.
          if (pool !== null) {
            await notePool(api, pool).catch((error) => new Output().note(messageOf(error)));
          }
          return secret;
        },
        async () => {
          await using home = await openHome();
          return await home.tokens.create(name, { access, pool, expiresAt });
        },
      );
      new Output().line(secret);
    });
  token.command("list")
    .description("List tokens.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      const tokens = await either(
        async (api) => (await api.call<{ tokens: TokenView[] }>("GET", "/v1/tokens")).tokens,
        async () => {
          await using home = await openHome();
          return (await home.tokens.list()).map((each): TokenView => ({
            name: each.name,
            access: each.access,
            pool: each.pool,
            created_at: new Date(each.createdAt).toISOString(),
            expires_at: each.expiresAt === null ? null : new Date(each.expiresAt).toISOString(),
          }));
        },
      );
      if (output.json) return output.document(tokens);
      output.table(
        ["name", "access", "pool", "created", "expires"],
        tokens.map((
          each,
        ) => [
          each.name,
          each.access,
          each.pool ?? "",
          each.created_at,
          each.expires_at ?? "never",
        ]),
      );
    });
  token.command("revoke")
    .description("Revoke a token: its next call is refused.")
    .argument("<name>", "the token's name")
    .action(async (name) => {
      await either(
        async (api) => void await api.call("DELETE", `/v1/tokens/${encodeURIComponent(name)}`),
        async () => {
          await using home = await openHome();
          await home.tokens.revoke(name);
        },
      );
      new Output().note(`token ${name} revoked`);
    });
}
