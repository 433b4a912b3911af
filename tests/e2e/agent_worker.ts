/** @module A worker of agents in the test's own hands: protocol 7 over HTTP, and nothing of our worker's code. */

import assert from "node:assert/strict";
import { type Cas, type Cid, openHttpCas, parseCid } from "../../lib/cas/mod.ts";
import { openHttpClient } from "../../lib/net/mod.ts";
import { until } from "../kit/mod.ts";
import type { Cluster } from "./cluster.ts";
import { fill, fixture } from "./protocol_7.ts";

const encoder = new TextEncoder();

/** A job's JSON, as far as tests read it. */
export interface ReadJob {
  readonly agent_session: number;
  readonly place: string;
  readonly brief_cid: string;
  readonly artifact: { readonly repo: number; readonly revision: string };
  readonly spec: { readonly executable: string; readonly args: readonly string[] };
  readonly session_id: string | null;
  readonly resume: { readonly session_id: string; readonly file: string } | null;
}

/** A worker that does as it is told. */
export class HandAgent {
  #offsets = new Map<string, number>();

  private constructor(readonly cluster: Cluster, readonly cas: Cas, readonly token: string) {}

  static async join(cluster: Cluster, name: string): Promise<HandAgent> {
    const token = await cluster.token(name);
    const client = openHttpClient({ server: cluster.cas, token });
    const worker = new HandAgent(cluster, openHttpCas(client, { ownsClient: true }), token);
    await worker.call("register", {
      protocol: 7,
      version: "0.0.0",
      pool: "lab",
      runners: ["process", "session"],
      sample: worker.#sample(),
      cas_probe: await worker.put(`probe of ${name}`),
    });
    return worker;
  }

  #sample(): unknown {
    return JSON.parse(fill("$SAMPLE", { SAMPLE: fixture.sample }));
  }

  async post(call: string, body: object): Promise<{ status: number; json: unknown }> {
    const response = await fetch(`${this.cluster.server}/v1/executor/${call}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, json: text === "" ? null : JSON.parse(text) };
  }

  async call(call: string, body: object): Promise<unknown> {
    const { status, json } = await this.post(call, body);
    assert.ok(status === 200 || status === 204, `${call}: ${status} ${JSON.stringify(json)}`);
    return json;
  }

  async put(text: string): Promise<Cid> {
    return await this.cas.put(encoder.encode(text));
  }

  async text(cid: string): Promise<string> {
    const bytes = await this.cas.get(parseCid(cid));
    assert.ok(bytes !== null, `${cid} is not in the store`);
    return new TextDecoder().decode(bytes);
  }

  /** A lease, once there is one, with its job. */
  async acquire(): Promise<{ lease: number; job: ReadJob }> {
    return await until("there is a lease", async () => {
      const grant = await this.call("acquire", {
        request_id: crypto.randomUUID(),
        sample: this.#sample(),
      });
      if (typeof grant !== "object" || grant === null) return null;
      const { lease, job_cid } = grant as { lease: number; job_cid: string };
      return { lease, job: JSON.parse(await this.text(job_cid)) };
    }, 60);
  }

  async start(): Promise<{ lease: number; job: ReadJob }> {
    const taken = await this.acquire();
    const handle = { runtime: "subprocess", data: { pid: 1 } };
    await this.call("started", { lease: taken.lease, handle, session_id: taken.job.session_id });
    return taken;
  }

  /** New text of a stream. */
  async write(lease: number, stream: string, text: string, more: object = {}): Promise<void> {
    const offset = this.#offsets.get(stream) ?? 0;
    const bytes = encoder.encode(text).length;
    const blob = await this.put(text);
    await this.call("saved", { lease, stream, offset, bytes, blob, ...more });
    this.#offsets.set(stream, offset + bytes);
  }

  /** What its agents are told, and what they are to stop. */
  async messages(): Promise<
    { kind: string; id: number; lease: number; prompt?: { text: string } }[]
  > {
    return (await this.call("messages", { after: 0, wait: 5 }) ?? []) as never;
  }

  async report(lease: number, report: object): Promise<void> {
    await this.call("report", { lease, request_id: crypto.randomUUID(), report });
  }
}

/** A line of a session of Claude Code in which the agent says `text`. */
export function says(text: string): string {
  const message = { role: "assistant", id: crypto.randomUUID(), content: [{ type: "text", text }] };
  return JSON.stringify({ type: "assistant", message }) + "\n";
}
