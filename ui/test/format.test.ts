import { expect, it } from "vitest";
import { bytes, clock, duration, lasted, mib, plural, words } from "../src/parts/format";
import { zone } from "../src/state/prefs";

it("says durations by their two largest units", () => {
  expect([0.42, 12, 75, 3600, 3661, 90_000, -3].map(duration)).toEqual([
    "0.4s",
    "12s",
    "1m 15s",
    "1h",
    "1h 1m",
    "1d 1h",
    "0s",
  ]);
});
it("says amounts with their units", () => {
  expect([mib(512), mib(40_960), bytes(10), bytes(2048)]).toEqual(["512 MiB", "40 GiB", "10 B", "2 KiB"]);
  expect([plural(1, "job"), plural(2000, "job")]).toEqual(["1 job", "2,000 jobs"]);
});
it("puts codes into words", () => {
  expect([words("INSUFFICIENT_GPU"), words("lease-lost")]).toEqual(["Insufficient GPU", "Lease lost"]);
});
it("shows all times in UTC when that is chosen", () => {
  zone.value = "utc";
  expect(clock(0)).toBe("00:00:00");
});
it("says in milliseconds what took no second", () => {
  expect([0, 0.0004, 0.031, 0.999, 1.2, 75].map(lasted)).toEqual(["0s", "1 ms", "31 ms", "999 ms", "1.2s", "1m 15s"]);
});
