// The bars of a job's timeline, from its ledger: waiting, each attempt, each delay before the next.
import type { LedgerEvent } from "../api/types";

export type BarKind = "waited" | "staged" | "ran" | "failed" | "preempted" | "delayed";

export interface Bar {
  kind: BarKind;
  label: string;
  from: number;
  /** Infinity while it goes on. */
  to: number;
  attempt: number;
}

const LABELS: Record<BarKind, string> = {
  waited: "in the queue",
  staged: "being started",
  ran: "ran",
  failed: "failed",
  preempted: "preempted",
  delayed: "delay before the next try",
};
// What a job does after an event of that kind, as far as its phase does not say it.
const BY_PHASE: Record<string, BarKind> = {
  WAITING: "waited",
  PENDING: "waited",
  STAGING: "staged",
  RUNNING: "ran",
  RETRYING: "delayed",
  PREEMPTED: "waited",
};
const ENDS_BADLY: Record<string, BarKind> = {
  failed: "failed",
  retrying: "failed",
  "lease-lost": "failed",
  unknown: "failed",
  preempted: "preempted",
  "requeue-requested": "preempted",
};

/** Stretches of time between events in which the job did one thing. */
export function bars(events: readonly LedgerEvent[]): Bar[] {
  const found: Bar[] = [];
  let open: Bar | undefined;
  for (const event of events) {
    const kind = BY_PHASE[event.phase];
    if (open && (open.kind !== kind || (event.attempt || open.attempt) !== open.attempt)) {
      open.to = event.at;
      const bad = ENDS_BADLY[event.kind];
      if (open.kind === "ran" && bad) {
        open.kind = bad;
        open.label = LABELS[bad];
      }
      open = undefined;
    }
    if (!open && kind) {
      open = { kind, label: LABELS[kind], from: event.at, to: Number.POSITIVE_INFINITY, attempt: event.attempt };
      found.push(open);
    }
  }
  return found;
}
