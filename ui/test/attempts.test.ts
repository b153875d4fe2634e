import { expect, it } from "vitest";
import type { LedgerEvent } from "../src/api/types";
import { bars } from "../src/parts/attempts";

const event = (seq: number, kind: string, phase: string, at: number, attempt = 0) =>
  ({ seq, kind, phase, at, attempt, job: "j", tenant: "t", fence: "", by: "", reason: "", data: {} }) as LedgerEvent;

it("draws each attempt and each delay as a bar of its own", () => {
  const found = bars([
    event(0, "submitted", "PENDING", 0),
    event(1, "bound", "STAGING", 4, 1),
    event(2, "started", "RUNNING", 5, 1),
    event(3, "retrying", "RETRYING", 15, 1),
    event(4, "requeued", "PENDING", 20, 1),
    event(5, "bound", "STAGING", 21, 2),
    event(6, "started", "RUNNING", 22, 2),
    event(7, "succeeded", "SUCCEEDED", 30, 2),
  ]);
  expect(found.map((bar) => [bar.kind, bar.from, bar.to, bar.attempt])).toEqual([
    ["waited", 0, 4, 0],
    ["staged", 4, 5, 1],
    ["failed", 5, 15, 1],
    ["delayed", 15, 20, 1],
    ["waited", 20, 21, 1],
    ["staged", 21, 22, 2],
    ["ran", 22, 30, 2],
  ]);
});

it("leaves open what goes on", () => {
  expect(bars([event(0, "submitted", "PENDING", 3)])[0]?.to).toBe(Number.POSITIVE_INFINITY);
});

it("tells a preemption from a failure", () => {
  const found = bars([event(0, "started", "RUNNING", 0, 1), event(1, "preempted", "PREEMPTED", 5, 1)]);
  expect(found.map((bar) => bar.kind)).toEqual(["preempted", "waited"]);
});
