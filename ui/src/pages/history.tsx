// How did it go? Numbers that the server itself remembers, without any other program.
import { query } from "../api/client";
import type { SeriesAnswer } from "../api/types";
import { Panel, Shown } from "../parts/basic";
import { Chart, type ChartLine } from "../parts/chart";
import { amount, bytes, count, duration, words } from "../parts/format";
import { summed, timeEnd } from "../parts/series";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";

type Found = SeriesAnswer["series"];
interface ChartKind {
  title: string;
  names: readonly string[];
  lines: (found: Found) => readonly ChartLine[];
  format: (value: number) => string;
  endOf?: (most: number) => number;
}

const perMinute = (value: number) => `${amount(value * 60)}/min`;
const seconds = (value: number) => (value < 1 ? `${amount(value * 1000)} ms` : duration(value));
const of = (found: Found, name: string) => found.filter((each) => each.name === name);

/** A line for each value of a label. */
const by =
  (name: string, label: string, said = words) =>
  (found: Found) =>
    of(found, name).map((each) => ({ label: said(each.labels[label] ?? ""), points: each.points }));
const plain = (labels: Record<string, string>) => (found: Found) =>
  Object.entries(labels).flatMap(([name, label]) =>
    of(found, name)
      .slice(0, 1)
      .map((each) => ({ label, points: each.points })),
  );
const asIs = (text: string) => text || "default";

function gpus(found: Found): readonly ChartLine[] {
  const all = of(found, "ares_gpus");
  const held = all.filter((each) => each.labels.state === "held");
  const lines = held.map((each) => ({ label: `${each.labels.pool}: held`, points: each.points }));
  return [{ label: "all there are", points: summed(all.map((each) => each.points)) }, ...lines];
}

export const QUEUE: ChartKind = {
  title: "Jobs in the queue",
  names: ["ares_queue_depth", "ares_pending_gpus"],
  lines: plain({ ares_queue_depth: "jobs", ares_pending_gpus: "GPUs they ask for" }),
  format: count,
};
export const RUNNING: ChartKind = {
  title: "Running, by pool",
  names: ["ares_jobs_running"],
  lines: by("ares_jobs_running", "pool", asIs),
  format: amount,
};
export const GPUS: ChartKind = { title: "GPUs held, by pool", names: ["ares_gpus"], lines: gpus, format: amount };
export const WAITS: ChartKind = {
  title: "Wait until placed",
  names: ["ares_scheduling_latency_seconds:p50", "ares_scheduling_latency_seconds:p95"],
  lines: plain({
    "ares_scheduling_latency_seconds:p50": "half within",
    "ares_scheduling_latency_seconds:p95": "19 of 20 within",
  }),
  format: seconds,
  endOf: timeEnd,
};

const CHARTS: readonly { title: string; charts: readonly ChartKind[] }[] = [
  {
    title: "Queue",
    charts: [
      QUEUE,
      WAITS,
      {
        title: "Why jobs wait",
        names: ["ares_pending_jobs"],
        // Of the many reasons there are, those that some job had.
        lines: (found) =>
          by(
            "ares_pending_jobs",
            "reason",
          )(found.filter((each) => each.points.some((point) => point !== null && point > 0))),
        format: count,
      },
      {
        title: "Wait of 19 of 20, by priority",
        names: ["ares_wait_seconds:p95"],
        lines: by("ares_wait_seconds:p95", "priority"),
        format: seconds,
        endOf: timeEnd,
      },
      {
        title: "The job that waits longest",
        names: ["ares_oldest_pending_seconds"],
        lines: plain({ ares_oldest_pending_seconds: "has waited" }),
        format: seconds,
        endOf: timeEnd,
      },
    ],
  },
  {
    title: "Jobs",
    charts: [
      RUNNING,
      {
        title: "Jobs that ended",
        names: ["ares_jobs_total:rate"],
        lines: (found) =>
          by(
            "ares_jobs_total:rate",
            "state",
          )(found.filter((each) => ["succeeded", "failed", "cancelled"].includes(each.labels.state ?? ""))),
        format: perMinute,
      },
      {
        title: "Submissions",
        names: ["ares_submissions_total:rate"],
        lines: by("ares_submissions_total:rate", "outcome"),
        format: perMinute,
      },
      {
        title: "Retries, by what failed",
        names: ["ares_retries_total:rate"],
        lines: by("ares_retries_total:rate", "failure"),
        format: perMinute,
      },
      {
        title: "Deadlines at risk",
        names: ["ares_deadlines_at_risk", "ares_deadlines_open"],
        lines: (found) => [
          {
            label: "at risk",
            points: summed(of(found, "ares_deadlines_at_risk").map((each) => each.points)),
          },
          { label: "open", points: summed(of(found, "ares_deadlines_open").map((each) => each.points)) },
        ],
        format: count,
      },
    ],
  },
  {
    title: "Machines",
    charts: [
      GPUS,
      {
        title: "How busy held GPUs are",
        names: ["ares_gpu_utilization:mean"],
        lines: plain({ "ares_gpu_utilization:mean": "mean, by their drivers" }),
        format: (value) => `${Math.round(value * 100)} %`,
        endOf: () => 1,
      },
      {
        title: "Power, by pool and by the model",
        names: ["ares_pool_power_watts"],
        lines: by("ares_pool_power_watts", "pool", asIs),
        format: (value) => `${count(value)} W`,
      },
      {
        title: "Nodes",
        names: ["ares_nodes"],
        lines: by("ares_nodes", "health"),
        format: count,
      },
      {
        title: "Room on the server's disks",
        names: ["ares_disk_free_bytes"],
        lines: by("ares_disk_free_bytes", "disk", asIs),
        format: bytes,
      },
    ],
  },
  {
    title: "The server",
    charts: [
      {
        title: "Submission to acknowledgement",
        names: ["ares_submit_seconds:p50", "ares_submit_seconds:p99"],
        lines: plain({ "ares_submit_seconds:p50": "half within", "ares_submit_seconds:p99": "99 of 100 within" }),
        format: seconds,
        endOf: timeEnd,
      },
      {
        title: "Store",
        names: ["ares_store_latency_seconds:p99"],
        lines: (found) =>
          of(found, "ares_store_latency_seconds:p99").map((each) => ({
            label: `99 of 100 within ${Object.values(each.labels).join(" ")}`.trim(),
            points: each.points,
          })),
        format: seconds,
        endOf: timeEnd,
      },
      {
        title: "How late its loop is",
        names: ["ares_loop_lag_seconds:p99"],
        lines: plain({ "ares_loop_lag_seconds:p99": "99 of 100 within" }),
        format: seconds,
        endOf: timeEnd,
      },
    ],
  },
];

const TIMES: readonly [string, number, string][] = [
  ["1h", 3600, "hour"],
  ["6h", 6 * 3600, "6 hours"],
  ["1d", 86_400, "day"],
  ["7d", 7 * 86_400, "week"],
  ["30d", 30 * 86_400, "30 days"],
  ["90d", 90 * 86_400, "90 days"],
];

export function HistoryPage() {
  const chosen = params.value.get("since") ?? "1h";
  const sinceS = TIMES.find(([name]) => name === chosen)?.[1] ?? 3600;
  return (
    <>
      <h1>History</h1>
      <p class="dim">
        What this replica remembers of the platform. `ares series` draws the same in a terminal; Prometheus keeps more.
      </p>
      <div class="chips" role="group" aria-label="How far back">
        {TIMES.map(([name, , label]) => (
          <button
            key={name}
            type="button"
            class="chip"
            aria-pressed={name === chosen}
            onClick={() => setParams({ since: name === "1h" ? "" : name })}
          >
            {label}
          </button>
        ))}
      </div>
      {CHARTS.map((group) => (
        <Panel key={group.title} title={group.title}>
          <Charts charts={group.charts} sinceS={sinceS} />
        </Panel>
      ))}
    </>
  );
}

/** Charts whose numbers come in one answer. */
export function Charts({ charts, sinceS }: { charts: readonly ChartKind[]; sinceS: number }) {
  const name = charts.flatMap((chart) => chart.names).join(",");
  const asked = useAsk<SeriesAnswer>(`/v1/series${query({ name, sinceS })}`, {
    every: sinceS > 7200 ? 60_000 : 20_000,
  });
  return (
    <Shown of={asked} rows={6}>
      {(found) => (
        <div class="charts">
          {charts.map((chart) => (
            <Chart
              key={chart.title}
              title={chart.title}
              lines={chart.lines(found.series)}
              since={found.since}
              stepS={found.stepS}
              format={chart.format}
              endOf={chart.endOf}
            />
          ))}
        </div>
      )}
    </Shown>
  );
}
