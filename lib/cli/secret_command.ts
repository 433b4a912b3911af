/** @module `sublet secret set | list | delete`. With a server of this home or without one. */

import type { Command } from "@commander-js/extra-typings";
import { either } from "./either.ts";
import { hiddenLine } from "./hidden_line.ts";
import { Output } from "./output.ts";

interface SecretView {
  readonly name: string;
  readonly campaign: string | null;
  readonly set_at: string;
  readonly set_by: string;
}

/** Who sets a secret without a server: whoever owns the home. */
const OWNER = "owner";

/** The home's secrets, whose code is loaded only when no server answers. */
async function openHome() {
  return await (await import("./home_secrets.ts")).openHomeSecrets();
}

/** The value: from a terminal unseen, else all of stdin but the line's end that a shell's `echo` adds. */
async function readValue(name: string): Promise<string> {
  if (Deno.stdin.isTerminal()) return await hiddenLine(`value of ${name}: `);
  const text = await new Response(Deno.stdin.readable).text();
  return text.replace(/\r?\n$/, "");
}

function whose(campaign: string | undefined): string {
  return campaign === undefined ? "the home" : `the campaign ${campaign}`;
}

/** Add the commands. */
export function addSecret(root: Command): void {
  const secret = root.command("secret").description(
    "Secrets that agents get in their environment. They are kept sealed, and hidden in what agents write.",
  );
  secret.command("set")
    .description("Keep a secret; its value comes from stdin, or unseen from the terminal.")
    .argument("<name>", "the name of an environment variable")
    .option("--campaign <name>", "only for this campaign (default: every campaign of the home)")
    .action(async (name, { campaign }) => {
      const value = await readValue(name);
      await either(
        async (api) =>
          void await api.call("PUT", `/v1/secrets/${encodeURIComponent(name)}`, {
            value,
            campaign: campaign ?? null,
          }),
        async () => {
          await using home = await openHome();
          await home.book.set(campaign ?? null, name, value, OWNER);
        },
      );
      new Output().note(`secret ${name} of ${whose(campaign)} set`);
    });
  secret.command("list")
    .description("List secrets, without their values.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      const secrets = await either(
        async (api) => (await api.call<{ secrets: SecretView[] }>("GET", "/v1/secrets")).secrets,
        async () => {
          await using home = await openHome();
          return (await home.book.list()).map(({ name, campaign, setAt, setBy }): SecretView => ({
            name,
            campaign,
            set_at: new Date(setAt).toISOString(),
            set_by: setBy,
          }));
        },
      );
      if (output.json) return output.document(secrets);
      output.table(
        ["name", "of", "set", "by"],
        secrets.map(({ name, campaign, set_at, set_by }) => [
          name,
          campaign === null ? "home" : campaign,
          set_at,
          set_by,
        ]),
      );
    });
  secret.command("delete")
    .description("Remove a secret.")
    .argument("<name>", "the secret's name")
    .option("--campaign <name>", "the campaign's (default: the home's)")
    .action(async (name, { campaign }) => {
      const query = campaign === undefined ? "" : `?campaign=${encodeURIComponent(campaign)}`;
      await either(
        async (api) =>
          void await api.call("DELETE", `/v1/secrets/${encodeURIComponent(name)}${query}`),
        async () => {
          await using home = await openHome();
          await home.book.delete(campaign ?? null, name, OWNER);
        },
      );
      new Output().note(`secret ${name} of ${whose(campaign)} deleted`);
    });
}
