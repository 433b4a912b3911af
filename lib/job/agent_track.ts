/** @module What an agent writes while it runs: which session it is, and its session and its output on their way out. */

import { type Cid } from "../cas/mod.ts";
import { messageOf } from "../home/mod.ts";
import type { AgentContext, Hiding } from "./agent_context.ts";
import type { SessionFile } from "./agent_ports.ts";
import { patternOf } from "./agent_prepare.ts";
import { readSessionId, sessionPattern } from "./agent_session.ts";
import type { AgentSessionFile, AgentUsage } from "./agent_shapes.ts";
import { SessionTranscript } from "./agent_transcript.ts";
import { TallyFeed, tallyOf } from "./agent_usage.ts";
import { logSource, sessionSource } from "./live_source.ts";
import { LiveStream, type Progress } from "./live_stream.ts";
import { LiveSync } from "./live_sync.ts";
import { SESSION_STREAM, STREAM_LIMITS } from "./stream_shapes.ts";

const STREAMS = "streams.json";
/** How soon, and later how often, the session's id and its file are looked for while they are not known. */
const LOOK_MS = 500;
const MAX_LOOK_MS = 10_000;
const PIECE = 1024 * 1024;
/** A session that is longer is not kept for a later job. */
const MAX_SESSION_BYTES = 1024 * 1024 * 1024;

/** Follows one agent. */
export class AgentTrack {
  readonly #context: AgentContext;
  readonly #hiding: Hiding;
  readonly #sync: LiveSync | null;
  readonly #over = new AbortController();
  readonly #progress: Readonly<Record<string, Progress>>;
  readonly #identified: (id: string) => Promise<void>;
  #feed: TallyFeed | null = null;
  #file: SessionFile | null = null;
  #looking: Promise<void> = Promise.resolve();
  #said: string | null = null;

  private constructor(
    context: AgentContext,
    hiding: Hiding,
    public sessionId: string | null,
    identified: (id: string) => Promise<void>,
    progress: Readonly<Record<string, Progress>>,
  ) {
    this.#context = context;
    this.#hiding = hiding;
    this.#identified = identified;
    this.#progress = progress;
    const { site, control, place, everyMs } = context;
    this.#sync = control.saved === undefined || hiding.withholds ? null : new LiveSync({
      clock: site.clock,
      log: site.log,
      lease: control.lease,
      everyMs,
      remember: (at) => place.write(STREAMS, JSON.stringify(at)),
    });
  }

  /** Begin. `sessionId`: as far as it is known; `identified` is told of it otherwise. */
  static async begin(
    context: AgentContext,
    hiding: Hiding,
    sessionId: string | null,
    identified: (id: string) => Promise<void>,
  ): Promise<AgentTrack> {
    const bytes = await context.place.read(STREAMS, 1024 * 1024);
    const progress = bytes === null ? {} : progressIn(new TextDecoder().decode(bytes));
    const track = new AgentTrack(context, hiding, sessionId, identified, progress);
    track.#looking = track.#look();
    return track;
  }

  /** Follow the output of turn `turn`. */
  output(turn: number): void {
    const { place } = this.#context;
    const { stdout, stderr } = place.output(turn);
    for (const name of [stdout, stderr]) this.#follow(name, logSource(place.root, name), {});
  }

  /** The session's id: looked for once more when it is not known. */
  async known(): Promise<string | null> {
    if (this.sessionId === null) await this.#lookOnce();
    return this.sessionId;
  }

  /** The agent's processes have ended: look once more, and send what is left. */
  async close(): Promise<void> {
    this.#over.abort();
    await this.#looking;
    try {
      await this.#lookOnce();
    } catch (error) {
      this.#log("agent.session_unknown", error);
    }
    await this.#sync?.close(true);
  }

  /** The agent goes on, and somebody else follows it from here. */
  async leave(): Promise<void> {
    this.#over.abort();
    await this.#looking;
    await this.#sync?.close(false);
  }

  /** The agent's tokens so far. */
  get usage(): AgentUsage | null {
    const counts = this.#feed?.counts ?? null;
    return counts === null || this.#file === null ? null : { ...counts, source: this.#file.path };
  }

  /** What the session says, once it was stored; null: none was, or nobody knows its format. */
  get said(): string | null {
    return this.#said;
  }

  /** Put the whole session into the CAS, for a later job to go on with. */
  async store(): Promise<AgentSessionFile | null> {
    const { site, place } = this.#context;
    const file = this.#file;
    if (file === null || site.sessions === undefined) return null;
    const format = this.#context.job.usage?.tally ?? null;
    const tally = tallyOf(format);
    const transcript = tally === null || format === null ? null : new SessionTranscript(format);
    const feed = tally === null ? null : new TallyFeed(tally, transcript);
    const plain = ReadableStream.from(pieces(sessionSource(site.sessions, file.path), feed));
    const hide = this.#hiding.stream;
    const cid: Cid = await site.cas.putStream(hide === null ? plain : plain.pipeThrough(hide()), {
      maxBytes: MAX_SESSION_BYTES,
    });
    this.#feed = feed;
    this.#said = transcript?.text ?? null;
    return { file: cid, name: file.name, cwd: place.worktree };
  }

  /** Look for the session until it is found. */
  async #look(): Promise<void> {
    const { clock } = this.#context.site;
    const { signal } = this.#over;
    let failed = false;
    for (let wait = LOOK_MS; !signal.aborted; wait = Math.min(wait * 1.5, MAX_LOOK_MS)) {
      try {
        if (await this.#lookOnce()) return;
      } catch (error) {
        if (!failed) this.#log("agent.session_unknown", error);
        failed = true;
      }
      await clock.sleep(wait, signal);
    }
  }

  /** Whether nothing more is to be found. */
  async #lookOnce(): Promise<boolean> {
    const { site, job, place } = this.#context;
    if (this.sessionId === null) {
      const source = job.spec?.session_id_pattern ?? null;
      const pattern = source === null ? null : sessionPattern(source);
      if (pattern === null) return true;
      const id = await readSessionId(place.root, place.output(1).stdout, pattern);
      if (id === null) return false;
      this.sessionId = id;
      await this.#identified(id);
    }
    if (this.#file !== null) return true;
    const pattern = patternOf(job, place.worktree, this.sessionId);
    if (pattern === null || site.sessions === undefined) return true;
    this.#file = await site.sessions.find(pattern);
    if (this.#file === null) return false;
    this.#followSession(this.#file);
    return true;
  }

  #followSession({ path, name }: SessionFile): void {
    const { site, job, place } = this.#context;
    if (site.sessions === undefined) return;
    const format = job.usage?.tally ?? null;
    const begin = () => {
      const tally = tallyOf(format);
      this.#feed = tally === null ? null : new TallyFeed(tally);
    };
    begin();
    this.#follow(SESSION_STREAM, sessionSource(site.sessions, path), {
      head: STREAM_LIMITS.session,
      lines: true,
      see: (bytes) => bytes === null ? begin() : this.#feed?.add(bytes),
      more: () => ({
        usage: this.usage,
        session: { id: this.sessionId, name, cwd: place.worktree },
      }),
    });
  }

  #follow(
    name: string,
    source: ReturnType<typeof logSource>,
    more: Partial<ConstructorParameters<typeof LiveStream>[0]>,
  ): void {
    const { site, control } = this.#context;
    if (this.#sync === null) return;
    const stream = new LiveStream({
      cas: site.cas,
      save: async (part) => await control.saved?.(part) ?? false,
      name,
      source,
      hide: this.#hiding.stream,
      head: STREAM_LIMITS.head,
      tail: STREAM_LIMITS.tail,
      ...more,
    }, Object.hasOwn(this.#progress, name) ? this.#progress[name] ?? null : null);
    this.#sync.add(stream);
  }

  #log(event: string, error: unknown): void {
    const { site, control } = this.#context;
    site.log.event(event, { lease: control.lease, error: messageOf(error) });
  }
}

async function* pieces(
  source: ReturnType<typeof logSource>,
  feed: TallyFeed | null,
): AsyncGenerator<Uint8Array> {
  for (let at = 0;;) {
    const piece = await source.read(at, PIECE);
    if (piece === null || piece.bytes.length === 0) return;
    at += piece.bytes.length;
    feed?.add(piece.bytes);
    yield piece.bytes;
  }
}

/** What an earlier process of the worker wrote down, as far as it is that. */
function progressIn(text: string): Record<string, Progress> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return {};
  }
  const found: [string, Progress][] = [];
  for (const [name, value] of Object.entries(json ?? {})) {
    const { inode, read, sent } = value as Record<string, unknown>;
    if (typeof inode !== "number" || typeof read !== "number" || typeof sent !== "number") continue;
    found.push([name, { inode, read, sent }]);
  }
  return Object.fromEntries(found);
}
