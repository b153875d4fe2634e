// What an alert means, where to look, and what to do: by the kinds that the platform raises.
import type { AlertRecord } from "../api/types";

export interface Runbook {
  meaning: string;
  look: readonly { label: string; to: string }[];
  act: readonly string[];
}

const JOBS_THAT_FAIL = [
  { label: "Jobs that are being retried", to: "/jobs?phase=RETRYING" },
  { label: "Jobs that failed", to: "/jobs?phase=FAILED" },
] as const;
const QUEUE = { label: "What waits, and why", to: "/queue" } as const;
const COST = { label: "Cost and budgets", to: "/cost" } as const;
const AUDIT = { label: "Audit: what was denied", to: "/audit?outcome=DENY" } as const;
const HEALTH = { label: "Health of the platform", to: "/health" } as const;

const RUNBOOKS: Record<string, Runbook> = {
  "retry-storm": {
    meaning: "Jobs of one tenant fail faster than they may be tried again: its retries pause, other tenants go on.",
    look: JOBS_THAT_FAIL,
    act: ["read the logs of one of them for the cause", "ares cancel JOB", "ares submit with the cause mended"],
  },
  "budget-near": {
    meaning: "The tenant will soon have spent its budget of this month.",
    look: [COST, { label: "What runs", to: "/jobs?phase=RUNNING" }],
    act: ["ares cost --budget", "ares quota set --help"],
  },
  "budget-exceeded": {
    meaning: "The budget of this month is spent: as the quota has it, jobs are refused or stopped.",
    look: [COST, QUEUE],
    act: ["ares cost --budget", "ares quota set --help"],
  },
  "quota-soft": {
    meaning: "The tenant uses more than its soft limit. Nothing is refused yet.",
    look: [{ label: "What runs", to: "/jobs?phase=RUNNING" }, QUEUE],
    act: ["ares quota show", "ares usage"],
  },
  "quota-drift": {
    meaning: "What a quota counts differed from what jobs use, and was set right.",
    look: [HEALTH],
    act: ["ares quota show", "ares verify --help"],
  },
  policy: {
    meaning: "A policy was told to raise an alert for such jobs.",
    look: [{ label: "The newest jobs", to: "/jobs" }],
    act: ["ares policy list"],
  },
  denials: {
    meaning: "One caller was refused again and again: a program with an old token, or a search for what is open.",
    look: [AUDIT],
    act: ["ares audit search --outcome DENY", "ares token list"],
  },
  "break-glass": {
    meaning: "A person with a wide role looked into another tenant, and gave a reason.",
    look: [{ label: "Audit", to: "/audit" }],
    act: ["ares audit search"],
  },
  "audit-chain": {
    meaning: "The audit log does not hold: entries are missing, or were changed.",
    look: [HEALTH],
    act: ["ares audit verify"],
  },
  "cron-refused": {
    meaning: "A schedule's job was refused; the schedule goes on.",
    look: JOBS_THAT_FAIL,
    act: ["ares cron ls"],
  },
  "cron-paused": {
    meaning: "A schedule makes no more jobs until a person looks at it.",
    look: JOBS_THAT_FAIL,
    act: ["ares cron ls", "ares cron resume NAME"],
  },
  "node-flapping": {
    meaning: "A machine came and went several times: for a while no job is sent there.",
    look: [{ label: "Nodes", to: "/nodes" }, HEALTH],
    act: ["look at the machine's network and at the log of its agent", "ares node drain NODE"],
  },
  "duplicate-agent": {
    meaning: "Two agents say that they are the same node.",
    look: [{ label: "Nodes", to: "/nodes" }],
    act: ["end one of them, or join it under a name of its own"],
  },
  "agent-malformed": {
    meaning: "An agent sends what cannot be understood: another version, a fault, or not an agent.",
    look: [{ label: "Nodes", to: "/nodes" }],
    act: ["compare the versions of agent and server", "ares node drain NODE"],
  },
  "report-set-aside": {
    meaning: "What an agent reported of a job cannot be written down. The job waits for a person.",
    look: [HEALTH],
    act: ["ares events JOB", "see the log of the server"],
  },
  "record-set-aside": {
    meaning: "A record of the store cannot be read. What it is about is left alone until it can.",
    look: [HEALTH],
    act: ["ares verify --help", "ares store backup FILE"],
  },
  "disk-reserve": {
    meaning: "A disk of the server is nearly full: the reserve that keeps it working is used.",
    look: [HEALTH, { label: "Room over time", to: "/history?since=7d" }],
    act: ["make room on that disk"],
  },
  "plugin-cut-off": {
    meaning: "A plugin of the scheduler failed or took too long: plans are made without it.",
    look: [{ label: "Scheduling over time", to: "/history" }],
    act: ["ares plugins", "see the log of the server"],
  },
  "planning-lost": {
    meaning: "The process that plans ends again and again. What runs goes on; little is placed.",
    look: [HEALTH, QUEUE],
    act: ["see the log of the server: planning.lost"],
  },
};

const UNKNOWN: Runbook = {
  meaning: "An alert of a kind that this page does not know.",
  look: [HEALTH],
  act: ["ares alert list"],
};

export const runbookOf = (alert: Pick<AlertRecord, "kind">): Runbook => RUNBOOKS[alert.kind] ?? UNKNOWN;
export const runbookKinds = (): readonly string[] => Object.keys(RUNBOOKS);

/** The page of what an alert is about: "nodes/NAME", "jobs/ID"; empty where there is none. */
export function placeOf(subject: string): string {
  const [kind = "", ...rest] = subject.split("/");
  const name = rest.join("/");
  if (kind === "nodes" && name) return `/nodes/${encodeURIComponent(name)}`;
  if (kind === "jobs" && name) return `/jobs/${encodeURIComponent(name)}`;
  return "";
}

/** Ids of jobs that a text names. */
export const jobsIn = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/\bjob ([0-9a-z]{16})\b/g)].map((found) => found[1] ?? "")),
];
