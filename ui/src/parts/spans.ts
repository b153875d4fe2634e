// A trace as rows of a waterfall: below what each hangs, where it lies in the whole, and what it is in words.
import type { JobTrace, TraceSpan } from "../api/types";

export interface SpanRow {
  span: TraceSpan;
  depth: number;
  /** In percent of the whole. */
  x: number;
  width: number;
  lasts: number;
  open: boolean;
}

const WORDS: Record<TraceSpan["name"], string> = {
  job: "Whole job",
  submit: "Accepted",
  route: "Waits for its turn to queue",
  queue: "In the queue",
  place: "Place chosen",
  start: "Being started",
  run: "Runs",
  stop: "Being stopped",
  backoff: "Delay before the next try",
  commit: "End written",
  program: "Recorded by the program",
};

export function spanWords(span: TraceSpan): string {
  if (span.name === "program") return `${span.label}${span.rank ? ` (rank ${span.rank})` : ""}`;
  const attempt = span.attempt ? `Attempt ${span.attempt}: ` : "";
  const rank = span.rank ? `, rank ${span.rank}` : "";
  const words = WORDS[span.name];
  return `${attempt}${attempt ? words.charAt(0).toLowerCase() + words.slice(1) : words}${rank}`;
}

/** What of it is drawn: the narrowest bar can still be seen. */
const LEAST = 0.4;

export function whole(trace: JobTrace, now: number): { from: number; to: number } {
  const from = Math.min(...trace.spans.map((span) => span.beganAt), trace.at);
  const ends = trace.spans.map((span) => span.endedAt ?? Math.max(now, trace.at));
  return { from, to: Math.max(from + 0.001, ...ends) };
}

/** In the order in which they began, what hangs below another span one step further in. */
export function spanRows(trace: JobTrace, now: number): SpanRow[] {
  const { from, to } = whole(trace, now);
  const above = new Map(trace.spans.map((span) => [span.spanId, span.parentId]));
  const depthOf = (id: string): number => {
    let depth = 0;
    let at = above.get(id);
    while (at && above.has(at) && depth < 8) {
      depth += 1;
      at = above.get(at);
    }
    return depth;
  };
  return trace.spans.map((span) => {
    const end = span.endedAt ?? Math.max(now, trace.at);
    const x = (100 * (span.beganAt - from)) / (to - from);
    const width = Math.max(LEAST, (100 * (end - span.beganAt)) / (to - from));
    return {
      span,
      depth: depthOf(span.spanId),
      x: Math.min(x, 100 - LEAST),
      width: Math.min(width, 100 - Math.min(x, 100 - LEAST)),
      lasts: end - span.beganAt,
      open: span.endedAt === null,
    };
  });
}

/** The colour of its bar, by what it was and how it ended. */
export function spanTone(span: TraceSpan): string {
  if (span.status === "error") return "failed";
  if (span.name === "queue" || span.name === "route") return "waited";
  if (span.name === "run") return "ran";
  if (span.name === "stop") return "preempted";
  return span.name === "backoff" ? "delayed" : "staged";
}
