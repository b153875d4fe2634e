// Where did its time go? Every stretch of the job's way to scale, from its ledger: no collector is needed.
import { useState } from "preact/hooks";
import type { JobTrace, TraceSpan } from "../api/types";
import { Command, Empty, Facts, now, Panel, Shown, Time } from "../parts/basic";
import { Download } from "../parts/download";
import { clock, count, lasted } from "../parts/format";
import { type SpanRow, spanRows, spanTone, spanWords, whole } from "../parts/spans";
import { useAsk } from "../state/ask";
import { href, params, setParams } from "../state/route";

const SHOWN = 200;

export function TraceTab({ id }: { id: string }) {
  const path = `/v1/jobs/${encodeURIComponent(id)}/trace`;
  const asked = useAsk<JobTrace>(path, { on: id, every: 5000 });
  return (
    <Shown of={asked} rows={8}>
      {(trace) =>
        trace.spans.length === 0 ? (
          <Empty title="An array has no trace of its own: each of its tasks has." command={`ares jobs --array ${id}`} />
        ) : (
          <>
            <Panel title="Where its time went" more={<Downloads path={path} id={id} />}>
              <Summary trace={trace} />
              <Waterfall trace={trace} />
            </Panel>
            <p class="dim small">
              Trace <span class="mono">{trace.traceId}</span>: what the job's own processes record with TRACEPARENT
              belongs to it. The same in a terminal: <Command text={`ares trace ${id}`} />
            </p>
          </>
        )
      }
    </Shown>
  );
}

function Downloads({ path, id }: { path: string; id: string }) {
  return (
    <span class="downloads">
      <Download path={`${path}?format=chrome`} name={`trace-${id}.json`}>
        For Chrome and Perfetto
      </Download>{" "}
      ·{" "}
      <Download path={`${path}?format=otlp`} name={`trace-${id}.otlp.json`}>
        OTLP
      </Download>
    </span>
  );
}

/** How long it waited, was started, ran and was delayed, as one bar. Ranks of a gang run at the same time. */
function Summary({ trace }: { trace: JobTrace }) {
  const until = (span: TraceSpan) => span.endedAt ?? Math.max(now.value, trace.at);
  const parts = (["waited", "staged", "ran", "failed", "delayed", "preempted"] as const).map((tone) => ({
    tone,
    lasts: trace.spans
      .filter((span) => span.name !== "job" && span.name !== "program" && !span.rank && spanTone(span) === tone)
      .reduce((sum, span) => sum + until(span) - span.beganAt, 0),
  }));
  const said: Record<string, string> = {
    waited: "waiting",
    staged: "being placed and started",
    ran: "running",
    failed: "in attempts that failed",
    delayed: "in delays",
    preempted: "being stopped",
  };
  const told = parts.filter((part) => part.lasts > 0);
  return (
    <p class="lead">
      {told.length === 0
        ? "Nothing has taken any time yet."
        : told.map((part) => `${lasted(part.lasts)} ${said[part.tone]}`).join(", ")}
      .
    </p>
  );
}

function Waterfall({ trace }: { trace: JobTrace }) {
  const chosen = params.value.get("span") ?? "";
  const [all, setAll] = useState(false);
  const rows = spanRows(trace, now.value);
  const { from, to } = whole(trace, now.value);
  const shown = all ? rows : rows.slice(0, SHOWN);
  return (
    <div class="waterfall">
      <div class="axis" aria-hidden="true">
        <span>{clock(from)}</span>
        <span class="dim">{lasted(to - from)}</span>
        <span>{rows.some((row) => row.open) ? "now" : clock(to)}</span>
      </div>
      <ul>
        {shown.map((row) => (
          <li key={row.span.spanId} class={`depth-${Math.min(row.depth, 3)}`}>
            <button
              type="button"
              class="span"
              aria-expanded={chosen === row.span.spanId}
              onClick={() => setParams({ span: chosen === row.span.spanId ? "" : row.span.spanId })}
            >
              <span class="waterfall-name">
                {row.span.status === "error" ? <span class="bad-text">✕ </span> : null}
                {spanWords(row.span)}
              </span>
              <svg
                class={`bar ${spanTone(row.span)}`}
                viewBox="0 0 100 14"
                preserveAspectRatio="none"
                aria-hidden="true"
              >
                <rect class="bar-all" width="100" height="14" />
                <rect class="bar-part" x={row.x} width={row.width} height="14" />
              </svg>
              <span class="num">
                {lasted(row.lasts)}
                {row.open ? " so far" : ""}
              </span>
            </button>
            {chosen === row.span.spanId ? <Details row={row} from={from} /> : null}
          </li>
        ))}
      </ul>
      {rows.length > shown.length ? (
        <button type="button" onClick={() => setAll(true)}>
          Show all {count(rows.length)} spans
        </button>
      ) : null}
      {trace.leftOut > 0 ? <p class="dim small">{count(trace.leftOut)} more are not in the answer.</p> : null}
    </div>
  );
}

function Details({ row, from }: { row: SpanRow; from: number }) {
  const { span } = row;
  const facts = Object.entries(span.attributes).filter(([, value]) => value !== "");
  return (
    <div class="span-facts">
      {span.message ? <p>{span.message}</p> : null}
      <Facts
        facts={[
          [
            "Began",
            <>
              <Time at={span.beganAt} /> <span class="dim">+{lasted(span.beganAt - from)}</span>
            </>,
          ],
          ["Ended", span.endedAt === null ? "still lasts" : <Time at={span.endedAt} />],
          ["Status", span.status === "unset" ? (row.open ? "in flight" : "ended") : span.status],
          ...facts.map(([name, value]) => [name, named(name, value)] as const),
          ["Span", <span class="mono">{span.spanId}</span>],
          ...span.links.map((link) => ["Goes on from", link.why || link.spanId] as const),
        ]}
      />
    </div>
  );
}

function named(name: string, value: string | number) {
  if (name === "node" && typeof value === "string" && !value.includes(","))
    return <a href={href(`/nodes/${encodeURIComponent(value)}`)}>{value}</a>;
  return String(value);
}
