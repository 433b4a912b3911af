/** @module What a statement's text says of it: its verb, whether it only reads, and how many parameters it takes. */

import { SubletError } from "../home/mod.ts";
import type { Value } from "./port.ts";

/** Facts of a statement's text. */
export interface StatementFacts {
  /** Whether it surely changes nothing. */
  readonly reads: boolean;
  /** Whether it has changed nothing when it says that it changed no row. */
  readonly counts: boolean;
  /** How many `?` it has. */
  readonly params: number;
}

const OURS = /^(begin|commit|end|rollback|savepoint|release|attach|detach|vacuum)$/;

/** The facts of `sql`. Throws `internal` for a statement that would break the lane's own transaction. */
export function factsOf(sql: string): StatementFacts {
  const bare = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\//g, " ");
  const verb = /^\s*(\w+)/.exec(bare)?.[1]?.toLowerCase() ?? "";
  if (OURS.test(verb)) {
    throw new SubletError("internal", `a transaction's body may not run ${verb.toUpperCase()}`);
  }
  const writes = /\b(insert|update|delete|replace)\b/i.test(bare);
  return {
    reads: verb === "select" || verb === "values" || (verb === "with" && !writes),
    counts: /^(insert|replace|update|delete|with)$/.test(verb),
    params: bare.split("?").length - 1,
  };
}

/** `params` as SQLite takes them: whole numbers as integers. Throws for a wrong number of them, and for a NUL in text. */
export function bindable(
  params: readonly Value[],
  facts: StatementFacts,
): (string | number | bigint | null | Uint8Array)[] {
  if (params.length !== facts.params) {
    throw new SubletError(
      "internal",
      `a statement with ${facts.params} parameters got ${params.length} values`,
    );
  }
  return params.map((value) => {
    // A number is bound as a real by node:sqlite, which shows in JSON and in division.
    if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
    if (typeof value === "string" && value.includes("\0")) {
      throw new SubletError("invalid_request", "text with a NUL cannot be stored: leave it out");
    }
    return value;
  });
}
