import { describe, expect, it } from "vitest";
import type { JobTrace, TraceSpan } from "../src/api/types";
import { spanRows, spanTone, spanWords, whole } from "../src/parts/spans";

const span = (
  name: TraceSpan["name"],
  beganAt: number,
  endedAt: number | null,
  more: Partial<TraceSpan> = {},
): TraceSpan => ({
  name,
  beganAt,
  endedAt,
  spanId: `${name}-${beganAt}`,
  parentId: name === "job" ? "" : "job-100",
  attempt: 0,
  rank: null,
  label: "",
  status: "unset",
  message: "",
  attributes: {},
  links: [],
  ...more,
});
const trace = (spans: TraceSpan[]): JobTrace => ({
  job: "j",
  name: "n",
  tenant: "t",
  phase: "RUNNING",
  traceId: "x",
  at: 200,
  leftOut: 0,
  spans,
});

describe("a trace as a waterfall", () => {
  const tried = trace([
    span("job", 100, null),
    span("queue", 100, 120),
    span("run", 120, 160, { attempt: 1, status: "error" }),
    span("run", 180, null, { attempt: 2, rank: 3 }),
  ]);

  it("puts each span where it lies in the whole, what lasts up to now", () => {
    const rows = spanRows(tried, 300);
    expect(whole(tried, 300)).toEqual({ from: 100, to: 300 });
    expect(rows.map((row) => [row.x, row.width, row.open])).toEqual([
      [0, 100, true],
      [0, 10, false],
      [10, 20, false],
      [40, 60, true],
    ]);
    expect(rows.map((row) => row.depth)).toEqual([0, 1, 1, 1]);
  });

  it("draws what took no time, and nothing beyond the end", () => {
    const rows = spanRows(trace([span("job", 100, 100), span("commit", 100, 100)]), 100);
    expect(rows.every((row) => row.width > 0 && row.x + row.width <= 100)).toBe(true);
  });

  it("says what each is", () => {
    expect(tried.spans.map(spanWords)).toEqual([
      "Whole job",
      "In the queue",
      "Attempt 1: runs",
      "Attempt 2: runs, rank 3",
    ]);
    expect(tried.spans.map(spanTone)).toEqual(["staged", "waited", "failed", "ran"]);
  });
});

it("a span of the program has the program's name, below its run", () => {
  const inner = span("program", 103, 104, { label: "epoch 3", parentId: "run-102", attempt: 1, rank: 0 });
  expect(spanWords(inner)).toBe("epoch 3");
  const rows = spanRows(trace([span("job", 100, 110), span("run", 102, 109), inner]), 110);
  expect(rows.map((row) => row.depth)).toEqual([0, 1, 2]);
});
