/** @module What an agent's job gets of its machine beyond a {@linkcode Site}, each with a default that does nothing. */

/** Where a harness keeps a session: the `file` of a {@linkcode UsageSpec}, and what its placeholders stand for. */
export interface SessionPattern {
  /** A glob with `{home}`, `{env:NAME:default}`, `{cwd}` and `{session_id}`. */
  readonly file: string;
  /** For `{cwd}`, the one that fits first wins; then any one folder does. */
  readonly folder: string | null;
  readonly sessionId: string;
  /** Variables of the job that go before this machine's. */
  readonly env: Readonly<Record<string, string>>;
}

/** A session file. */
export interface SessionFile {
  /** Absolute. */
  readonly path: string;
  /** Of {@linkcode path}, beneath the fixed start of its pattern. */
  readonly name: string;
  readonly size: number;
  /** Tells a file from one that took its place. */
  readonly inode: number;
}

/** Files of harnesses, which lie in the directory of whoever runs the worker. */
export interface SessionFiles {
  /** The file that `pattern` names, the newest of several, or null. */
  find(pattern: SessionPattern): Promise<SessionFile | null>;
  /**
   * At most `max` bytes of what {@linkcode find} found, from byte `from` on, with the file's size and inode now; null
   * when it is gone.
   */
  read(
    path: string,
    from: number,
    max: number,
  ): Promise<{ readonly bytes: Uint8Array; readonly size: number; readonly inode: number } | null>;
  /** Put the file `source` (absolute, in the home) beneath the fixed start of `pattern`, as `name`, unless it is there. */
  restore(pattern: SessionPattern, name: string, source: string): Promise<void>;
}

/** Makes streams in which no value of a list of secrets is left. */
export interface Redaction {
  /** A stream for each thing that leaves, which replaces every form of `values` in it, however it is cut. */
  streams(values: readonly string[]): () => TransformStream<Uint8Array, Uint8Array>;
  /** `text` without them. */
  text(values: readonly string[], text: string): string;
}

/** The job that a door is opened for. */
export interface RelayJob {
  readonly lease: number;
  readonly agent: number;
  /** The job's own directory, absolute and in the home, which no other job uses: a socket may lie in it. */
  readonly directory: string;
  /** What the command of the door is called besides `sublet`. */
  readonly aliases: readonly string[];
  /** A script that hands out the messages of the agent: `agent messages [--format lines|claude-hook]` runs it. */
  readonly messages: string;
  /** `text` without the agent's secrets. Default: it has none. */
  readonly hide?: (text: string) => string;
}

/** A door, open until it is disposed of: no command passes from then on. */
export interface Door extends AsyncDisposable {
  /** The program that `SUBLET_BIN` names. Its directory goes first on the agent's PATH. */
  readonly program: string;
  /** Variables that the program needs. */
  readonly env: Readonly<Record<string, string>>;
}

/** What the commands of agents go through to the server. */
export interface Relay {
  open(job: RelayJob): Promise<Door>;
}
