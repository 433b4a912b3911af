/** @module The recorded bodies of worker protocol 7 (`tests/fixtures/protocol_7.json`), filled in. */

import fixture from "../fixtures/protocol_7.json" with { type: "json" };

export { fixture };

/** `template` with each `$NAME` replaced. Throws when one is left. */
export function fill(
  template: string,
  values: Readonly<Record<string, string | number>> = {},
): string {
  return template.replaceAll(/\$([A-Z]+)/g, (_, name: string) => {
    const value = values[name] ?? (name === "SAMPLE" ? fixture.sample : undefined);
    if (value === undefined) throw new Error(`nothing to fill in for $${name} of ${template}`);
    return String(value);
  });
}

/** The names and kinds of values in `json`, in order of appearance: what another program relies on. */
export function shape(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(shape);
  if (typeof json !== "object" || json === null) return json === null ? "null" : typeof json;
  return Object.entries(json).map(([key, value]) => [key, shape(value)]);
}
