// What needs a person, and what came of it?
import { useState } from "preact/hooks";
import { call, Problem, query } from "../api/client";
import type { AlertRecord } from "../api/types";
import { Age, Command, Empty, JobLink, Rows, Shown, Time, Trouble } from "../parts/basic";
import { count, words } from "../parts/format";
import { jobsIn, placeOf, runbookOf } from "../parts/runbooks";
import { refresh, useAsk } from "../state/ask";
import { href, params, setParams } from "../state/route";

const GLYPHS: Record<string, string> = { critical: "✕", warning: "!", info: "i" };

export function AlertsPage() {
  const all = params.value.get("all") === "1";
  const platform = params.value.get("of") === "platform";
  const chosen = params.value.get("alert") ?? "";
  const [problem, setProblem] = useState<Problem | undefined>();
  const asked = useAsk<{ alerts: AlertRecord[] }>(
    `/v1/alerts${query({ all: all || undefined, platform: platform || undefined })}`,
    { every: 5000 },
  );
  const settle = async (alert: AlertRecord, what: string) => {
    setProblem(undefined);
    try {
      await call("POST", `/v1/alerts/${alert.id}/${what}${query({ platform: platform || undefined })}`, { note: "" });
      refresh();
    } catch (error) {
      if (error instanceof Problem) setProblem(error);
    }
  };
  return (
    <>
      <h1>Alerts</h1>
      <div class="chips" role="group" aria-label="Which">
        <button type="button" class="chip" aria-pressed={all} onClick={() => setParams({ all: all ? "" : "1" })}>
          with resolved ones
        </button>
        <button
          type="button"
          class="chip"
          aria-pressed={platform}
          onClick={() => setParams({ of: platform ? "" : "platform" })}
        >
          of the platform
        </button>
      </div>
      {problem ? <Trouble problem={problem} /> : null}
      <Shown of={asked} rows={6}>
        {({ alerts }) =>
          alerts.length === 0 ? (
            <Empty title="There is no alert." command="ares channel --help">
              Channels tell of new ones by mail or webhook.
            </Empty>
          ) : (
            <Rows
              label="Alerts"
              heads={["Severity", "What", "About", "Since", "Last", "Times", "State", ""]}
              numeric={[5]}
            >
              {alerts.flatMap((alert) => [
                <tr key={alert.id}>
                  <td>
                    <span
                      class={`tag ${alert.severity === "critical" ? "bad" : alert.severity === "warning" ? "operator" : ""}`}
                    >
                      {GLYPHS[alert.severity]} {alert.severity}
                    </span>
                  </td>
                  <td>
                    <b>{words(alert.kind)}</b>: {alert.text}{" "}
                    <button
                      type="button"
                      class="quiet"
                      aria-expanded={chosen === alert.id}
                      onClick={() => setParams({ alert: chosen === alert.id ? "" : alert.id })}
                    >
                      What to do
                    </button>
                  </td>
                  <td class="mono">
                    {placeOf(alert.subject) ? (
                      <a href={href(placeOf(alert.subject))}>{alert.subject}</a>
                    ) : (
                      alert.subject
                    )}
                  </td>
                  <td>
                    <Age at={alert.firstAt} />
                  </td>
                  <td>
                    <Time at={alert.lastAt} />
                  </td>
                  <td class="num">{count(alert.count)}</td>
                  <td>
                    {alert.state}
                    {alert.by ? ` by ${alert.by}` : ""}
                  </td>
                  <td>
                    {alert.state === "open" ? (
                      <button type="button" onClick={() => void settle(alert, "acknowledge")}>
                        Acknowledge
                      </button>
                    ) : null}
                    {alert.state !== "resolved" ? (
                      <button type="button" onClick={() => void settle(alert, "resolve")}>
                        Resolve
                      </button>
                    ) : null}
                  </td>
                </tr>,
                chosen === alert.id ? (
                  <tr key={`${alert.id} runbook`}>
                    <td colSpan={8}>
                      <RunbookOf alert={alert} />
                    </td>
                  </tr>
                ) : null,
              ])}
            </Rows>
          )
        }
      </Shown>
    </>
  );
}

/** What it means, where its cause is likely seen, and what ends it. */
function RunbookOf({ alert }: { alert: AlertRecord }) {
  const book = runbookOf(alert);
  const jobs = jobsIn(alert.text);
  return (
    <div class="runbook">
      <p>{book.meaning}</p>
      <h3>Look</h3>
      <ul class="plain">
        {placeOf(alert.subject) ? (
          <li>
            <a href={href(placeOf(alert.subject))}>{alert.subject}</a>
          </li>
        ) : null}
        {jobs.map((id) => (
          <li key={id}>
            Job <JobLink id={id} />
          </li>
        ))}
        {book.look.map((place) => (
          <li key={place.to}>
            <a href={href(place.to)}>{place.label}</a>
          </li>
        ))}
      </ul>
      <h3>Act</h3>
      <ul class="plain">
        {book.act.map((step) => (
          <li key={step}>{step.startsWith("ares ") ? <Command text={step} /> : step}</li>
        ))}
      </ul>
    </div>
  );
}
