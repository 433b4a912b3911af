/** @module Which Deno needs test defaults of newer ones, and what they are. */

/** What a call of `Deno.test` takes. */
export type Argument = string | object | undefined;

const OFF = { sanitizeOps: false, sanitizeResources: false };

/** The arguments of a call of `Deno.test`, with both sanitizers off where it does not ask for them. */
export function withoutSanitizers(args: readonly Argument[]): Argument[] {
  const fn = args.findLast((each) => typeof each === "function");
  const given = args.find((each) => typeof each === "object");
  const name = args.find((each) => typeof each === "string");
  return [{
    ...OFF,
    ...(fn === undefined ? {} : { name: "name" in fn ? fn.name : "", fn }),
    ...given,
    ...(name === undefined ? {} : { name }),
  }];
}

/** Whether Deno of this version needs them. */
export function needsTestDefaults(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < 2 || major === 2 && minor < 9;
}
