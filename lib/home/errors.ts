/** @module The one error type of sublet: a stable code, and the HTTP status and exit code it maps to. */

/** Exit codes of the command line, by meaning. 130 and 143 are signals. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  cancelled: 3,
  unauthorised: 4,
  notFound: 5,
  conflict: 6,
  unreachable: 7,
  refused: 8,
  integrity: 9,
} as const;

/** One of the numbers of {@linkcode EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Every stable error code, with the HTTP status and the exit code that it maps to. The one place that maps them. */
export const ERRORS = {
  invalid_request: { status: 400, exit: EXIT.usage },
  invalid_cid: { status: 400, exit: EXIT.usage },
  unsafe_path: { status: 400, exit: EXIT.refused },
  cid_mismatch: { status: 400, exit: EXIT.integrity },
  unauthenticated: { status: 401, exit: EXIT.unauthorised },
  no_credential: { status: 401, exit: EXIT.unauthorised },
  permission_denied: { status: 403, exit: EXIT.unauthorised },
  reserved: { status: 403, exit: EXIT.unauthorised },
  not_found: { status: 404, exit: EXIT.notFound },
  slow_request: { status: 408, exit: EXIT.failed },
  method_not_allowed: { status: 405, exit: EXIT.usage },
  conflict: { status: 409, exit: EXIT.conflict },
  stale_lease: { status: 409, exit: EXIT.conflict },
  not_addressed: { status: 409, exit: EXIT.conflict },
  missing_blobs: { status: 409, exit: EXIT.conflict },
  not_sent: { status: 409, exit: EXIT.conflict },
  dismissed: { status: 409, exit: EXIT.refused },
  superseded: { status: 409, exit: EXIT.refused },
  unknown_worker: { status: 409, exit: EXIT.conflict },
  length_required: { status: 411, exit: EXIT.usage },
  other_cas: { status: 412, exit: EXIT.refused },
  too_large: { status: 413, exit: EXIT.refused },
  invalid_body: { status: 422, exit: EXIT.usage },
  protocol: { status: 426, exit: EXIT.refused },
  busy: { status: 429, exit: EXIT.failed },
  integrity: { status: 500, exit: EXIT.integrity },
  internal: { status: 500, exit: EXIT.failed },
  unavailable: { status: 503, exit: EXIT.failed },
  unreachable: { status: 503, exit: EXIT.unreachable },
  config: { status: 500, exit: EXIT.usage },
  usage: { status: 400, exit: EXIT.usage },
  cancelled: { status: 409, exit: EXIT.cancelled },
  failed: { status: 500, exit: EXIT.failed },
} as const satisfies Record<string, { status: number; exit: ExitCode }>;

/** A stable code of {@linkcode ERRORS}. */
export type ErrorCode = keyof typeof ERRORS;

/** What went wrong and what to do about it, with a stable {@linkcode ErrorCode}. Every error we raise is one. */
export class SubletError extends Error {
  /** The stable code that programs match on. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "SubletError";
    this.code = code;
  }

  /** The HTTP status of an answer that carries this error. */
  get status(): number {
    return ERRORS[this.code].status;
  }

  /** The exit code of a command that ends with this error. */
  get exit(): ExitCode {
    return ERRORS[this.code].exit;
  }
}

/** Whether `error` is a {@linkcode SubletError} of one of `codes`. */
export function isError(error: unknown, ...codes: ErrorCode[]): error is SubletError {
  return error instanceof SubletError && (codes.length === 0 || codes.includes(error.code));
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
