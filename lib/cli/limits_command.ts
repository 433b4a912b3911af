/** @module `sublet limits`: what may change while the server runs, and what somebody set. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";
import { age, Output } from "./output.ts";

interface Limit {
  readonly reason: string;
  readonly actor: string;
  readonly at: string;
}

/** A live key, as the API answers it. */
export interface LiveKeyView {
  readonly key: string;
  readonly value: number | null;
  readonly source: "default" | "config" | "limit";
  readonly limit: Limit | null;
}

/** A limit that is not in force, as the API answers it. */
export interface RefusedLimitView extends Limit {
  readonly key: string;
  readonly value: number | null;
  readonly why: string;
}

/** Where a key's value is from, for people. */
export function limitSource({ source, limit }: LiveKeyView): string {
  if (limit === null) return source === "config" ? "config.toml" : "default";
  return `limit by ${limit.actor}, ${age(Date.now() - Date.parse(limit.at))} ago: ${limit.reason}`;
}

/** A key with its value, for people. */
export function limitText({ key, value }: { key: string; value: number | null }): string {
  return `${key} = ${value ?? "no bound"}`;
}

/** Add the commands. */
export function addLimits(root: Command): void {
  const limits = root.command("limits")
    .description("List the keys that may change while the server runs, or change one.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const found = await api.call<{ limits: LiveKeyView[]; refused: RefusedLimitView[] }>(
        "GET",
        "/v1/limits",
      );
      if (output.json) return output.document(found);
      output.table(
        ["key", "value", "from"],
        found.limits.map((each) => [each.key, String(each.value ?? "no bound"), limitSource(each)]),
      );
      for (const each of found.refused) {
        output.note(`not in force: ${limitText(each)} (${each.reason}): ${each.why}`);
      }
    });
  limits.command("set")
    .description("Set a key over the config: in force at once, and after every restart.")
    .argument("<key=value>", "such as executor.pools.lab.evaluations=0; null is no bound")
    .requiredOption("--reason <text>", "why, for whoever reads it")
    .action(async (text, options) => {
      const { key, value } = parseSetting(text);
      using api = await ApiClient.open();
      const path = `/v1/limits/${encodeURIComponent(key)}`;
      const body = { value, reason: options.reason };
      new Output().note(`${limitText(await api.call<LiveKeyView>("PUT", path, body))}, in force`);
    });
  limits.command("unset")
    .description("Go back to what the config says.")
    .argument("<key>", "the key, as `limits` lists it")
    .action(async (key) => {
      using api = await ApiClient.open();
      await api.call("DELETE", `/v1/limits/${encodeURIComponent(key)}`);
      new Output().note(`${key}: as the config says`);
    });
}

/** The two sides of `KEY=VALUE`. Throws `usage`. */
export function parseSetting(text: string): { key: string; value: number | null } {
  const [, key, right = ""] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  const value = right.trim() === "null" ? null : Number(right.trim() === "" ? NaN : right);
  if (key !== undefined && (value === null || Number.isFinite(value))) {
    return { key: key.trim(), value };
  }
  throw new SubletError(
    "usage",
    `${text}: give KEY=VALUE, VALUE a number or null, such as executor.pools.lab.evaluations=0`,
  );
}
