/** @module The report of a lost agent that came too late to count: somebody says that it is to be taken all the same. */

import { type Cas, parseCid } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import { parseAgentReport } from "./agent_report.ts";
import type { AgentReport } from "./agent_shapes.ts";

/** A report that was refused, in the shape of `Evidence` of lib/lease. */
export interface LateReport {
  readonly lease: number | null;
  readonly worker: string | null;
  readonly report?: unknown;
  /** Its address, when it is long. */
  readonly report_cid?: string;
}

/** The newest of `late` that is of `lease`, read and judged. Throws `not_found` when there is none. */
export async function newestLate(
  cas: Cas,
  late: readonly LateReport[],
  lease: number | null,
): Promise<{ readonly worker: string | null; readonly report: AgentReport }> {
  for (const { lease: of, worker, report, report_cid: cid } of late.toReversed()) {
    if (of !== lease || lease === null) continue;
    const value = cid === undefined ? report : await read(cas, cid);
    return { worker, report: parseAgentReport(value) };
  }
  throw new SubletError(
    "not_found",
    "its last worker has handed nothing in: start the worker again with its home, and it does",
  );
}

async function read(cas: Cas, cid: string): Promise<unknown> {
  const bytes = await cas.get(parseCid(cid));
  if (bytes !== null) return JSON.parse(new TextDecoder().decode(bytes));
  throw new SubletError("not_found", `the store lost the report ${cid}`);
}
