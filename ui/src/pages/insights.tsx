// What is odd, and what is to be expected: with how good that has been, and nothing where it would be a guess.
import { useState } from "preact/hooks";
import { call, type Problem } from "../api/client";
import type { DemandView, InsightList, InsightRecord } from "../api/types";
import { Age, Empty, Panel, Shown, Time, Trouble } from "../parts/basic";
import { amount, count, duration, plural } from "../parts/format";
import { refresh, useAsk } from "../state/ask";
import { href, params, setParams } from "../state/route";
import { may } from "../state/session";

export function InsightsPage() {
  const every = params.value.get("all") === "yes";
  const asked = useAsk<InsightList>(`/v1/insights${every ? "?all=true" : ""}`, { every: 15_000 });
  return (
    <>
      <h1>Insights</h1>
      <Shown of={asked} rows={6}>
        {(list) => (
          <>
            <Panel title="What is to be expected" more={<span class="dim">of GPUs that are asked for</span>}>
              <div class="charts">
                {list.forecasts.map((view) => (
                  <Forecast key={view.aheadS} view={view} />
                ))}
              </div>
            </Panel>
            <Panel
              title="What is odd"
              more={
                <button
                  type="button"
                  class="chip"
                  aria-pressed={every}
                  onClick={() => setParams({ all: every ? "" : "yes" })}
                >
                  also what is kept quiet
                </button>
              }
            >
              {list.causes.length > 0 ? (
                <p class="stale">Quiet now, for a known cause: {list.causes.join("; ")}.</p>
              ) : null}
              {list.insights.length === 0 ? (
                <Empty title="Nothing is odd.">
                  {list.judged === 0
                    ? `None of ${plural(list.watched, "series", "series")} is known for three hours yet: nothing is said before.`
                    : `${count(list.judged)} of ${plural(list.watched, "series", "series")} are judged, each by its own last two days.`}
                </Empty>
              ) : (
                <ul class="insights">
                  {list.insights.map((record) => (
                    <Insight key={record.id} record={record} />
                  ))}
                </ul>
              )}
            </Panel>
            <p class="dim small">
              By replica {list.replica}, from the numbers that it remembers (<a href={href("/history")}>History</a>).
            </p>
          </>
        )}
      </Shown>
    </>
  );
}

const share = (value: number | null) => (value === null ? "–" : `${amount(100 * value)} %`);

function Forecast({ view }: { view: DemandView }) {
  return (
    <div>
      <h3>In {duration(view.aheadS)}</h3>
      {view.probability === null ? (
        <p class="dim">Nothing is said: {view.silent}.</p>
      ) : (
        <>
          <p>
            <b class="big">{share(view.probability)}</b> that jobs hold or ask for all{" "}
            {view.capacity === null ? "" : count(view.capacity)} GPUs; four of five such times between{" "}
            {amount(view.low ?? 0)} and {amount(view.high ?? 0)}.
          </p>
          <p class="dim small">
            How good that was lately: skill {amount(view.skill ?? 0)} (0 is a guess, 1 is always right), in the range{" "}
            {share(view.coverage)} of {count(view.tried)} times.
          </p>
        </>
      )}
    </div>
  );
}

function Insight({ record }: { record: InsightRecord }) {
  const [problem, setProblem] = useState<Problem | undefined>();
  const judge = async (verdict: "no-anomaly" | "useful") => {
    try {
      await call("POST", `/v1/insights/${encodeURIComponent(record.id)}/feedback`, { verdict });
      setProblem(undefined);
      refresh();
    } catch (error) {
      setProblem(error as Problem);
    }
  };
  return (
    <li>
      <p>
        <span class={`tag ${record.endedAt === null ? "operator" : "wait"}`}>
          {record.endedAt === null ? "! now" : "over"}
        </span>{" "}
        <b>{record.text}</b>
      </p>
      <p class="dim small">
        Since <Time at={record.beganAt} /> (for{" "}
        {record.endedAt === null ? <Age at={record.beganAt} /> : duration(record.endedAt - record.beganAt)}). As usual
        would be {amount(record.low)} to {amount(record.high)}. <span class="mono">{record.series}</span>
        {record.cause ? ` Kept quiet: ${record.cause}.` : ""}
        {record.verdict ? ` ${record.by} said: ${record.verdict === "useful" ? "useful" : "no anomaly"}.` : ""}
      </p>
      {may("profile:admin") ? (
        <div class="actions">
          <button type="button" disabled={record.verdict === "useful"} onClick={() => void judge("useful")}>
            Useful
          </button>
          <button type="button" disabled={record.verdict === "no-anomaly"} onClick={() => void judge("no-anomaly")}>
            No anomaly
          </button>
        </div>
      ) : null}
      {problem ? <Trouble problem={problem} /> : null}
    </li>
  );
}
