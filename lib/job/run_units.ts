/** @module The units file of a run: the parts of each metric, as JSON `{metric: {unit id: number}}`. */

import { isError, messageOf, openBeneath, SubletError } from "../home/mod.ts";
import type { Sample } from "./shapes.ts";

/** Metric to unit id to number. */
export type Units = Sample["units"];

/** A larger units file is refused: it travels within the report. Bytes. */
const MAX_BYTES = 8 * 1024 * 1024;
const RELATIVE = 1e-3;
const ABSOLUTE = 1e-9;

function wrong(reason: string): SubletError {
  return new SubletError("invalid_body", `units file: ${reason}`);
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The units in `text`. Each metric must be one of `metrics`, have units, all finite numbers, and their sum must be what
 * was printed, within 0.1 % or 1e-9. Throws `invalid_body` with the reason.
 */
export function parseUnits(text: string, metrics: ReadonlyMap<string, number>): Units {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw wrong(`it is not JSON (${messageOf(error)})`);
  }
  if (!isTable(value)) throw wrong("it is no JSON object of metrics");
  const units: [string, Record<string, number>][] = [];
  for (const [metric, parts] of Object.entries(value)) {
    const named = JSON.stringify(metric);
    const printed = metrics.get(metric);
    if (printed === undefined) throw wrong(`it has the metric ${named}, which was not printed`);
    if (!isTable(parts)) throw wrong(`the metric ${named} is no JSON object of units`);
    const numbers = Object.entries(parts).map(([unit, number]): [string, number] => {
      if (typeof number === "number" && Number.isFinite(number)) return [unit, number];
      throw wrong(`the unit ${JSON.stringify(unit)} of ${named} is not a finite number`);
    });
    if (numbers.length === 0) throw wrong(`the metric ${named} has no units`);
    const sum = numbers.reduce((total, [, number]) => total + number, 0);
    if (!close(sum, printed)) {
      throw wrong(`the units of ${named} add up to ${sum}, and ${printed} was printed`);
    }
    units.push([metric, Object.fromEntries(numbers)]);
  }
  return Object.fromEntries(units);
}

function close(a: number, b: number): boolean {
  return Math.abs(a - b) <= Math.max(RELATIVE * Math.max(Math.abs(a), Math.abs(b)), ABSOLUTE);
}

/** The units that a run left in the file `relative` beneath `root`; none when it left no file. Throws as `parseUnits`. */
export async function readUnits(
  root: string,
  relative: string,
  metrics: ReadonlyMap<string, number>,
): Promise<Units> {
  let bytes: Uint8Array;
  try {
    await using file = await openBeneath(root, relative, { what: "units file" });
    bytes = await file.bytes(MAX_BYTES);
  } catch (error) {
    if (isError(error, "not_found")) return {};
    if (isError(error, "too_large")) throw wrong(`it has more than ${MAX_BYTES} bytes`);
    throw wrong(messageOf(error));
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw wrong("it is not UTF-8");
  }
  return parseUnits(text, metrics);
}
