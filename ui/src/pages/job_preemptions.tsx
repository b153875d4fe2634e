// Who had to leave for whom, and was it right? Every preemption with both of its sides.
import type { LedgerEvent } from "../api/types";
import { Empty, Facts, JobLink, Panel, Rows, Shown, Time } from "../parts/basic";
import { amount, duration, times, words } from "../parts/format";
import { useAsk } from "../state/ask";

interface Side {
  job?: string;
  tenant?: string;
  priority?: string;
  gpus?: number;
  share?: number;
  ranS?: number;
  lostGpuS?: number;
  reservation?: string;
  operator?: string;
}

interface Told {
  for?: Side;
  rule?: string;
  why?: string;
  victims?: Side[];
  lostGpuS?: number;
  evictedGpus?: number;
  proven?: boolean;
  node?: string;
}

const RULES: Record<string, string> = {
  priority: "A job of a higher priority may take the place of one of a lower.",
  reclaim: "A tenant below its share takes back what others borrowed.",
  shrink: "A job that can do with fewer ranks gives some up.",
  consolidate: "Jobs are moved together, so that a larger one has room.",
  drain: "An operator has the machine emptied.",
};

export function PreemptionsTab({ id }: { id: string }) {
  const asked = useAsk<{ events: LedgerEvent[] }>(`/v1/jobs/${encodeURIComponent(id)}/preemptions`, {
    on: id,
    every: 10_000,
  });
  return (
    <Shown of={asked} rows={6}>
      {({ events }) =>
        events.length === 0 ? (
          <Empty title="It left for no other job, and none left for it." command={`ares why-preempted ${id}`} />
        ) : (
          <>
            <p class="sentence">{summary(events)}</p>
            {events.map((event) => (
              <Preemption key={event.seq} event={event} id={id} />
            ))}
          </>
        )
      }
    </Shown>
  );
}

function summary(events: readonly LedgerEvent[]): string {
  const left = events.filter((event) => event.kind === "preempted");
  const asked = events.filter((event) => event.kind !== "preempted");
  const mine = left.reduce((sum, event) => {
    const victims = (event.data as Told).victims ?? [];
    return sum + (victims.find((victim) => victim.job === event.job)?.lostGpuS ?? 0);
  }, 0);
  const theirs = asked.reduce((sum, event) => sum + ((event.data as Told).lostGpuS ?? 0), 0);
  return [
    left.length > 0 ? `It left ${times(left.length)}, and repeats ${amount(mine)} GPU-seconds of work.` : "",
    asked.length > 0 ? `Others left for it ${times(asked.length)}, and repeat ${amount(theirs)} GPU-seconds.` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function Preemption({ event, id }: { event: LedgerEvent; id: string }) {
  const told = event.data as Told;
  const left = event.kind === "preempted";
  const victims = told.victims ?? [];
  return (
    <Panel
      title={left ? `This job left (attempt ${event.attempt})` : "Others left for this job"}
      more={<Time at={event.at} />}
    >
      <p class="lead">{event.reason}</p>
      <div class="sides">
        <div>
          <h3>Who asked for the room</h3>
          <Asker side={told.for} id={id} />
        </div>
        <div>
          <h3>Who left</h3>
          {victims.length === 0 ? (
            <p class="dim">Not told in the ledger.</p>
          ) : (
            <Rows
              label="Who left"
              heads={["Job", "Priority", "GPUs", "Had run", "Repeats, GPU-s", "Share"]}
              numeric={[2, 3, 4, 5]}
            >
              {victims.map((victim, at) => (
                <tr key={at}>
                  <td>
                    <Who side={victim} id={id} />
                  </td>
                  <td>{victim.priority ? words(victim.priority) : "–"}</td>
                  <td class="num">{victim.gpus === undefined ? "–" : amount(victim.gpus)}</td>
                  <td class="num">{victim.ranS === undefined ? "–" : duration(victim.ranS)}</td>
                  <td class="num">{victim.lostGpuS === undefined ? "–" : amount(victim.lostGpuS)}</td>
                  <td class="num">{victim.share === undefined ? "–" : victim.share.toFixed(2)}</td>
                </tr>
              ))}
            </Rows>
          )}
        </div>
      </div>
      {told.rule ? (
        <p class="dim">
          By the rule <b>{told.rule}</b>: {RULES[told.rule] ?? told.why}
          {told.proven ? " It is proven that no set of jobs that matters less would have made the room." : ""}
        </p>
      ) : null}
    </Panel>
  );
}

function Who({ side, id }: { side: Side; id: string }) {
  if (!side.job) return <span class="dim">a job of another tenant</span>;
  return side.job === id ? <b>this job</b> : <JobLink id={side.job} tab="preemptions" />;
}

function Asker({ side, id }: { side: Side | undefined; id: string }) {
  if (!side) return <p class="dim">Not told in the ledger.</p>;
  if (side.reservation !== undefined) return <p>Reservation {side.reservation || "of another tenant"}</p>;
  if (side.operator !== undefined) return <p>Operator {side.operator}</p>;
  return (
    <Facts
      facts={[
        ["Job", <Who side={side} id={id} />],
        ["Priority", side.priority ? words(side.priority) : "–"],
        ["GPUs", side.gpus === undefined ? "–" : amount(side.gpus)],
        ...(side.share === undefined ? [] : ([["Its tenant's share", side.share.toFixed(2)]] as const)),
      ]}
    />
  );
}
