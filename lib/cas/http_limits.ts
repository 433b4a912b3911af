/** @module What each token may do with a store's HTTP service, and how long it may take. */

import { type Clock, type ErrorCode, SubletError } from "../home/mod.ts";
import { type Meter, type Rates, TokenUse } from "./token_use.ts";

/** The bounds of a service. */
export interface ServiceLimits extends Rates {
  /** Larger blobs are refused with 413. Default: no bound but the free disk. */
  readonly maxBytes?: number;
  /** An upload of which no byte (or hardly one) came for so many milliseconds ends with 408. Default 30,000. */
  readonly stallMs?: number;
  /** Transfers of one token at once; more are refused with 429. Default 128. */
  readonly transfersPerToken?: number;
  /** Transfers at once; more are refused with 503. Default 1,024. */
  readonly transfers?: number;
  /** Bytes that are free where blobs are stored, for 413 when a blob is larger. Default: nobody knows. */
  readonly freeBytes?: () => Promise<number>;
}

/** A refusal after which the same request may succeed. */
export class TryLater extends SubletError {
  /** `seconds`: when to try again. */
  constructor(code: ErrorCode, message: string, readonly seconds: number) {
    super(code, message);
  }
}

const STALL_MS = 30_000;
const PER_TOKEN = 128;
const IN_ALL = 1_024;

/** A receiver may take so many times as long: it may have to store what it got before it goes on. */
const DOWNLOAD = 10;

/** So few bytes within the stall time are none. */
const HARDLY = 1024;

/** The most bytes of a blob that is sent compressed: decoding costs time, whatever little was sent. */
const MAX_DECODED = 2 ** 30;

/** Counts nothing. */
const NOBODY: Meter = { count: () => 0 };

/** Tokens whose use is remembered; the one that was used longest ago is forgotten first. */
const MAX_TOKENS = 4096;

/** A transfer under way. It ends when it is disposed. */
export interface Transfer extends Disposable {
  /** Fires when the transfer stalls. */
  readonly signal: AbortSignal;
  /** So many bytes went through; a promise when it has to wait, for the token's rate. */
  progress(bytes: number): Promise<void> | void;
  /** So many bytes go through at once, and nothing more: there is nothing to wait for. */
  count(bytes: number): void;
}

/** Room on the disk that is kept for an upload, until it is disposed. */
export interface Space extends Disposable {
  /** So many bytes are on the disk now: they need no room any more. */
  arrived(bytes: number): void;
}

/** Lets transfers begin, and paces and ends them. */
export class Gate {
  readonly #clock: Clock;
  readonly #limits: ServiceLimits;
  readonly #stallMs: number;
  readonly #tokens = new Map<string, TokenUse>();
  /** Whether small requests need no account: nothing is bounded that they count to. */
  readonly free: boolean;
  #transfers = 0;
  /** Bytes that uploads under way have announced and not brought yet. */
  #promised = 0;

  constructor(limits: ServiceLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#stallMs = limits.stallMs ?? STALL_MS;
    this.free = limits.bytesPerSecond === undefined && limits.bytesPerDay === undefined;
  }

  /** What `token` has used. */
  #use(token: string): TokenUse {
    const known = this.#tokens.get(token);
    if (known !== undefined) return known;
    for (const [name, use] of this.#tokens) {
      if (this.#tokens.size < MAX_TOKENS) break;
      if (use.transfers === 0) this.#tokens.delete(name);
    }
    const use = new TokenUse(this.#limits, this.#clock);
    this.#tokens.set(token, use);
    return use;
  }

  /** Throws `busy` when `token` has used up its rate, or what it may upload in a day. */
  check(token: string, upload: boolean): void {
    if (this.free) return;
    const [what, waitMs] = this.#use(token).exhausted(upload);
    if (waitMs <= 0) return;
    const seconds = Math.ceil(waitMs / 1000);
    throw new TryLater(
      "busy",
      `${token} has used up ${what}: try again in ${seconds} s, or raise the limit`,
      seconds,
    );
  }

  /** The most bytes of a blob that arrives compressed. */
  get maxDecoded(): number {
    return Math.min(MAX_DECODED, this.#limits.maxBytes ?? Infinity);
  }

  /** Watch over a request that counts to nobody: only its signal is of use. */
  watch(): Transfer {
    return new Running(NOBODY, true, this.#clock, this.#stallMs, () => {});
  }

  /** Begin a transfer of `token`. Throws `busy` or `unavailable` when there are too many. */
  begin(token: string, upload: boolean): Transfer {
    this.check(token, upload);
    const { transfers = IN_ALL, transfersPerToken = PER_TOKEN } = this.#limits;
    const use = this.#use(token);
    if (use.transfers >= transfersPerToken) {
      throw new TryLater(
        "busy",
        `${token} has ${use.transfers} transfers under way, and may have no more: wait for one to end`,
        1,
      );
    }
    if (this.#transfers >= transfers) {
      throw new TryLater(
        "unavailable",
        `the store has ${this.#transfers} transfers under way, and takes no more now`,
        1,
      );
    }
    this.#transfers++;
    use.transfers++;
    const stallMs = upload ? this.#stallMs : DOWNLOAD * this.#stallMs;
    return new Running(use, upload, this.#clock, stallMs, () => {
      this.#transfers--;
      use.transfers--;
    });
  }

  /** Throws `too_large` when a blob of `length` bytes, which `what` names, is beyond the bound. */
  checkSize(length: number, what: string): void {
    const { maxBytes } = this.#limits;
    if (maxBytes === undefined || length <= maxBytes) return;
    throw new SubletError(
      "too_large",
      `${what} has ${length} bytes, and the store takes no more than ${maxBytes}`,
    );
  }

  /**
   * Throws `too_large` when a blob of `length` bytes, which `what` names, is beyond the bound, or does not fit the disk
   * together with the uploads under way, and `others` bytes besides. The space is kept for it until the result is
   * disposed.
   */
  async reserve(length: number, what: string, others = 0): Promise<Space> {
    this.checkSize(length, what);
    const free = (await this.#limits.freeBytes?.() ?? Infinity) - this.#promised - others;
    if (length > free) {
      throw new SubletError(
        "too_large",
        `${what} has ${length} bytes, and the store's disk has ${Math.max(0, free)} ` +
          "left for it: make room there, then try again",
      );
    }
    this.#promised += length;
    let left = length;
    const give = (bytes: number) => {
      this.#promised -= Math.min(left, bytes);
      left -= Math.min(left, bytes);
    };
    return { arrived: give, [Symbol.dispose]: () => give(left) };
  }
}

class Running implements Transfer {
  readonly #use: Meter;
  readonly #upload: boolean;
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #end: () => void;
  readonly #stalled = new AbortController();
  #moved = 0;
  #cancel: () => void;
  #over = false;

  constructor(use: Meter, upload: boolean, clock: Clock, stallMs: number, end: () => void) {
    this.#use = use;
    this.#upload = upload;
    this.#clock = clock;
    this.#stallMs = stallMs;
    this.#end = end;
    this.#cancel = clock.after(stallMs, () => this.#look());
  }

  get signal(): AbortSignal {
    return this.#stalled.signal;
  }

  progress(bytes: number): Promise<void> | void {
    this.#moved += bytes;
    const waitMs = this.#use.count(bytes, this.#upload);
    if (waitMs > 0) return this.#pause(waitMs);
  }

  count(bytes: number): void {
    this.#use.count(bytes, this.#upload);
  }

  /** Waiting for the rate is no stall. */
  async #pause(waitMs: number): Promise<void> {
    this.#cancel();
    await this.#clock.sleep(waitMs);
    if (!this.#over) this.#watch();
  }

  #watch(): void {
    this.#cancel = this.#clock.after(this.#stallMs, () => this.#look());
  }

  #look(): void {
    if (this.#moved < HARDLY) return this.#stalled.abort(stalled(this.#stallMs));
    this.#moved = 0;
    this.#watch();
  }

  [Symbol.dispose](): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancel();
    this.#end();
  }
}

function stalled(ms: number): SubletError {
  return new SubletError(
    "slow_request",
    `hardly a byte moved for ${ms / 1000} s, so the transfer was ended: try again`,
  );
}
