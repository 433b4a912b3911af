/** @module What a benchmark measures. */

/** One figure. */
export interface Figure {
  /** What was measured. */
  readonly name: string;
  readonly value: number;
  /** Such as `/s`, `ms` or `MB`. */
  readonly unit: string;
  /** On what, and beside what. */
  readonly conditions: string;
  /** What is to be reached, such as `>= 8,000`. */
  readonly target?: string;
}
