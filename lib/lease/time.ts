/** @module Times as the wire has them: ISO 8601 UTC text of a clock's milliseconds, without the machine's `Date`. */

const DAY_MS = 86_400_000;
/** Days from 0000-03-01 to 1970-01-01 in the proleptic Gregorian calendar, and in one of its 400-year cycles. */
const EPOCH_DAYS = 719_468;
const CYCLE_DAYS = 146_097;

/** `ms` since 1970 UTC as `2026-11-29T19:26:00.123Z`. Years 0 to 9999. */
export function isoTime(ms: number): string {
  const whole = Math.floor(ms);
  const days = Math.floor(whole / DAY_MS);
  const rest = whole - days * DAY_MS;
  const { year, month, day } = civil(days + EPOCH_DAYS);
  const clock = [Math.floor(rest / 3_600_000), Math.floor(rest / 60_000) % 60].map(two);
  const seconds = `${two(Math.floor(rest / 1000) % 60)}.${String(rest % 1000).padStart(3, "0")}`;
  return `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}T${
    clock.join(":")
  }:${seconds}Z`;
}

/** {@linkcode isoTime} of a column that may be null. */
export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms);
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

/** The date that is `days` after 0000-03-01: years start in March, so a leap day is a year's last. */
function civil(days: number): { year: number; month: number; day: number } {
  const cycle = Math.floor(days / CYCLE_DAYS);
  const inCycle = days - cycle * CYCLE_DAYS;
  const yearOfCycle = Math.floor(
    (inCycle - Math.floor(inCycle / 1460) + Math.floor(inCycle / 36_524) -
      Math.floor(inCycle / 146_096)) / 365,
  );
  const inYear = inCycle -
    (365 * yearOfCycle + Math.floor(yearOfCycle / 4) - Math.floor(yearOfCycle / 100));
  const fromMarch = Math.floor((5 * inYear + 2) / 153);
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
  return {
    year: yearOfCycle + cycle * 400 + (month <= 2 ? 1 : 0),
    month,
    day: inYear - Math.floor((153 * fromMarch + 2) / 5) + 1,
  };
}
