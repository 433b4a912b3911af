/** @module The API's routes of log files: what a job left, from the CAS, by the addresses of its report. */

import * as z from "zod";
import { type Cas, parseCid } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Agents, Evaluations } from "../job/mod.ts";
import type { ApiEngine } from "./engine_port.ts";
import { logList } from "./job_schemas.ts";
import { Raw, type Route, route } from "./route.ts";
import { idParams, idText } from "./schemas.ts";

/** The routes of log files. */
export function logRoutes(
  engine: ApiEngine,
  evaluations: Evaluations,
  agents: Agents,
  cas: Cas,
): Route[] {
  const filesOf = async (job: number) => {
    const of = await evaluations.ofJob(job) ?? await agents.ofJob(job);
    // A job of another kind has none, and one that is not known says so.
    if (of === null) await engine.showJob(job);
    return { ...of?.files };
  };
  return [
    route({
      method: "get",
      path: "/v1/jobs/{id}/logs",
      access: "read",
      operation: "listLogs",
      summary: "The log files that came with a job's report.",
      params: idParams,
      answer: logList,
    }, async ({ params: { id } }) => ({ files: await filesOf(id) })),
    route({
      method: "get",
      path: "/v1/jobs/{id}/logs/{path+}",
      access: "read",
      operation: "readLog",
      summary: "The bytes of a log file.",
      params: z.object({ id: idText, path: z.string().max(4096) }),
      answer: "application/octet-stream",
    }, async ({ params: { id, path } }) => {
      const files = await filesOf(id);
      const address = Object.hasOwn(files, path) ? files[path] : undefined;
      if (address === undefined) {
        throw new SubletError(
          "not_found",
          `job ${id} has no log file ${path}: see the list of its log files`,
        );
      }
      return new Raw(await blob(cas, address, path));
    }),
  ];
}

async function blob(cas: Cas, address: string, path: string): Promise<Response> {
  const body = await cas.getStream(parseCid(address));
  if (body === null) {
    throw new SubletError("not_found", `the CAS lost ${path} (${address}): it cannot be shown`);
  }
  // A log is whatever a job wrote: a browser must not run it.
  const headers = new Headers({
    "content-type": "application/octet-stream",
    "content-disposition": "attachment",
    "x-content-type-options": "nosniff",
    etag: `"${address}"`,
  });
  if (body.length !== null) headers.set("content-length", String(body.length));
  return new Response(body.stream, { headers });
}
