// Numbers and times as people read them. Every time follows the one switch between local time and UTC.
import { zone } from "../state/prefs";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const some = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2, minimumFractionDigits: 2 });

export const count = (value: number) => whole.format(value);
const small = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
/** As many digits as say something: 1,234, 12.3, 0.012. */
export const amount = (value: number) =>
  (Math.abs(value) >= 100 ? whole : Math.abs(value) >= 1 ? some : small).format(value);
export const money = (value: number) => fine.format(value);

const STEPS: readonly [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];

/** 3d 4h, 12m 5s, 0.4s: the two largest units. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const value = Math.max(0, seconds);
  if (value < 10) return `${some.format(value)}s`;
  let left = Math.round(value);
  const parts: string[] = [];
  for (const [size, unit] of STEPS) {
    const number = Math.floor(left / size);
    left -= number * size;
    if (number > 0) parts.push(`${number}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A span of time to the millisecond where that is all it took. */
export const lasted = (seconds: number) =>
  seconds > 0 && seconds < 1 ? `${whole.format(Math.max(1, 1000 * seconds))} ms` : duration(seconds);

export const ago = (at: number, now: number) => `${duration(now - at)} ago`;

function formatter(options: Intl.DateTimeFormatOptions): (at: number) => string {
  const made = new Map<string, Intl.DateTimeFormat>();
  return (at) => {
    const key = zone.value;
    let format = made.get(key);
    if (!format) {
      format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: key === "utc" ? "UTC" : undefined });
      made.set(key, format);
    }
    return format.format(at * 1000);
  };
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
export const clock = formatter(CLOCK);
const day = formatter({ month: "short", day: "2-digit" });
const whenWhole = formatter({ ...CLOCK, year: "numeric", month: "short", day: "2-digit", timeZoneName: "short" });
const dayKey = formatter({ year: "numeric", month: "2-digit", day: "2-digit" });

/** The time of day, with the date unless it is today. */
export function when(at: number | null | undefined): string {
  if (!at) return "–";
  return dayKey(at) === dayKey(Date.now() / 1000) ? clock(at) : `${day(at)} ${clock(at).slice(0, 5)}`;
}

export const exactly = (at: number | null | undefined) => (at ? whenWhole(at) : "");

export function mib(value: number): string {
  if (value < 1024) return `${whole.format(value)} MiB`;
  if (value < 1024 * 1024) return `${some.format(value / 1024)} GiB`;
  return `${some.format(value / 1024 / 1024)} TiB`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  return value < 1 << 20 ? `${some.format(value / 1024)} KiB` : mib(value / (1 << 20));
}

export const cpus = (milli: number) => some.format(milli / 1000);
export const percent = (part: number, all: number) => (all > 0 ? Math.round((100 * part) / all) : 0);

/** "INSUFFICIENT_GPU" in words: "Insufficient GPU". */
export function words(code: string): string {
  const text = code
    .toLowerCase()
    .replaceAll(/[_-]/g, " ")
    .replaceAll(/\b(gpu|cpu|numa)\b/g, (each) => each.toUpperCase());
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export const plural = (number: number, one: string, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

export const times = (number: number) => (number === 1 ? "once" : `${count(number)} times`);
