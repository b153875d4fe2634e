// What happened to it, in order and to scale: every attempt, every wait, every delay, from the ledger.
import type { JobDetail, LedgerEvent } from "../api/types";
import { type Bar, bars } from "../parts/attempts";
import { Empty, JobLink, now, Panel, Rows, Shown, Time } from "../parts/basic";
import { amount, clock, count, duration, plural, words } from "../parts/format";
import { useAsk } from "../state/ask";

export function EventsTab({ id, job }: { id: string; job: JobDetail | undefined }) {
  const asked = useAsk<{ events: LedgerEvent[] }>(`/v1/jobs/${encodeURIComponent(id)}/events`, { on: id, every: 5000 });
  const moved = useAsk<{ events: LedgerEvent[] }>(
    job && (job.state.preemptions > 0 || job.state.evicting.length > 0)
      ? `/v1/jobs/${encodeURIComponent(id)}/preemptions`
      : null,
    { every: 15_000 },
  );
  return (
    <Shown of={asked} rows={8}>
      {({ events }) =>
        events.length === 0 ? (
          <Empty title="An array has no ledger of its own." command={`ares jobs --array ${id}`} />
        ) : (
          <>
            <Panel title="Timeline">
              <Waterfall events={events} />
            </Panel>
            {moved.data && moved.data.events.length > 0 ? (
              <Panel title="Preemptions, from both sides">
                {moved.data.events.map((event) => (
                  <Preemption key={event.seq} event={event} id={id} />
                ))}
              </Panel>
            ) : null}
            <Panel title="Ledger" more={<span class="dim">{plural(events.length, "event")}</span>}>
              <Rows label="Ledger" heads={["At", "After", "What", "Attempt", "By", "Why"]} numeric={[3]}>
                {events.map((event, at) => (
                  <tr key={event.seq}>
                    <td>
                      <Time at={event.at} />
                    </td>
                    <td class="dim">{at === 0 ? "" : `+${duration(event.at - (events[at - 1]?.at ?? event.at))}`}</td>
                    <td>{words(event.kind)}</td>
                    <td class="num">{event.attempt || ""}</td>
                    <td>{event.by}</td>
                    <td>{event.reason}</td>
                  </tr>
                ))}
              </Rows>
            </Panel>
          </>
        )
      }
    </Shown>
  );
}

function Waterfall({ events }: { events: readonly LedgerEvent[] }) {
  const shown = bars(events);
  const from = events[0]?.at ?? 0;
  const over = shown.every((bar) => Number.isFinite(bar.to));
  const to = over ? Math.max(...shown.map((bar) => bar.to), from + 0.001) : now.value;
  const span = Math.max(to - from, 0.001);
  const x = (at: number) => (100 * (Math.min(at, to) - from)) / span;
  return (
    <div class="waterfall">
      <div class="axis" aria-hidden="true">
        <span>{clock(from)}</span>
        <span class="dim">{duration(span)}</span>
        <span>{over ? clock(to) : "now"}</span>
      </div>
      <ul>
        {shown.map((bar) => (
          <li key={`${bar.from} ${bar.kind}`}>
            <span class="waterfall-name">
              {bar.kind === "waited" || bar.kind === "delayed"
                ? words(bar.label)
                : `Attempt ${count(bar.attempt)}: ${bar.label}`}
            </span>
            <svg class={`bar ${bar.kind}`} viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
              <rect class="bar-all" width="100" height="14" />
              <rect class="bar-part" x={x(bar.from)} width={Math.max(0.4, x(bar.to) - x(bar.from))} height="14" />
            </svg>
            <span class="num">{length(bar, to)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function length(bar: Bar, to: number): string {
  return Number.isFinite(bar.to) ? duration(bar.to - bar.from) : `${duration(to - bar.from)} so far`;
}

interface Victim {
  job?: string;
  tenant?: string;
  lostGpuS?: number;
  ranS?: number;
  gpus?: number;
}

function Preemption({ event, id }: { event: LedgerEvent; id: string }) {
  const data = event.data as {
    for?: { job?: string; priority?: string; gpus?: number; reservation?: string; operator?: string };
    rule?: string;
    why?: string;
    victims?: Victim[];
  };
  const asker = data.for;
  const left = event.kind === "preempted";
  const victims = data.victims ?? [];
  return (
    <div class="sides">
      <div>
        <h3>{left ? "This job left" : "Others left for this job"}</h3>
        <p>
          <Time at={event.at} />
          {event.attempt ? `, attempt ${event.attempt}` : ""}: {event.reason}
        </p>
        {data.rule ? (
          <p>
            Rule <b>{data.rule}</b>: {data.why}
          </p>
        ) : null}
      </div>
      <div>
        <h3>{left ? "For whom" : "Who left"}</h3>
        {left && asker ? (
          <p>
            {asker.reservation !== undefined ? (
              `reservation ${asker.reservation || "of another tenant"}`
            ) : asker.operator !== undefined ? (
              `operator ${asker.operator}`
            ) : asker.job ? (
              <JobLink id={asker.job} />
            ) : (
              "a job of another tenant"
            )}
            {asker.priority ? `, ${asker.priority.toLowerCase()}` : ""}
            {asker.gpus ? `, ${amount(asker.gpus)} GPUs` : ""}
          </p>
        ) : null}
        <ul class="plain">
          {victims.map((victim, at) => (
            <li key={at}>
              {victim.job ? victim.job === id ? "this job" : <JobLink id={victim.job} /> : "a job of another tenant"}
              {victim.lostGpuS !== undefined
                ? `: ${amount(victim.lostGpuS)} GPU-seconds lost after ${duration(victim.ranS ?? 0)}`
                : ""}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
