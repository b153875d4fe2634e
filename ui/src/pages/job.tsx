// What is it doing, and what next?
import { useEffect, useState } from "preact/hooks";
import { call, get, Problem } from "../api/client";
import type { JobDetail, OutputList } from "../api/types";
import {
  Age,
  Command,
  Empty,
  Facts,
  JobLink,
  LikelyStart,
  Panel,
  PhaseBadge,
  Rows,
  Shown,
  Skeleton,
  Tabs,
  Time,
  Trouble,
} from "../parts/basic";
import { amount, bytes, count, cpus, duration, mib, money, times, words } from "../parts/format";
import { refresh, useAsk } from "../state/ask";
import { go, href, path } from "../state/route";
import { may } from "../state/session";
import { DecisionTab } from "./job_decision";
import { EventsTab } from "./job_events";
import { LogsTab } from "./job_logs";
import { PreemptionsTab } from "./job_preemptions";
import { TraceTab } from "./job_trace";
import { WhyTab } from "./job_why";

const TABS = [
  ["overview", "Overview"],
  ["why", "Why"],
  ["logs", "Logs"],
  ["trace", "Trace"],
  ["events", "Events"],
  ["placement", "Placement"],
  ["preemptions", "Preemptions"],
] as const;
const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED"]);

export function JobPage({ id }: { id: string }) {
  const shown = path.value[2] ?? "overview";
  const asked = useAsk<JobDetail>(`/v1/jobs/${encodeURIComponent(id)}`, { on: id, every: 4000 });
  if (asked.problem?.status === 404 && !asked.data) return <ByPrefix prefix={id} problem={asked.problem} />;
  if (asked.problem && !asked.data)
    return (
      <>
        <h1>Job {id}</h1>
        <Trouble problem={asked.problem} again={asked.again} />
      </>
    );
  const tabs = TABS.map(([name, label]) => ({
    name,
    label,
    to: `/jobs/${encodeURIComponent(id)}${name === "overview" ? "" : `/${name}`}`,
  }));
  return (
    <>
      <Shown of={asked} rows={3}>
        {(job) => <Head job={job} />}
      </Shown>
      <Tabs label="Job" tabs={tabs} shown={shown} />
      {shown === "overview" ? (
        <Shown of={{ ...asked, problem: asked.data ? undefined : asked.problem }} rows={10}>
          {(job) => <OverviewTab job={job} />}
        </Shown>
      ) : null}
      {shown === "why" ? <WhyTab id={id} /> : null}
      {shown === "logs" ? <LogsTab id={id} job={asked.data} /> : null}
      {shown === "trace" ? <TraceTab id={id} /> : null}
      {shown === "events" ? <EventsTab id={id} /> : null}
      {shown === "placement" ? <DecisionTab id={id} /> : null}
      {shown === "preemptions" ? <PreemptionsTab id={id} /> : null}
    </>
  );
}

/** An id may be given by its beginning, as everywhere. */
function ByPrefix({ prefix, problem }: { prefix: string; problem: Problem }) {
  const [ids, setIds] = useState<string[] | undefined>();
  useEffect(() => {
    let gone = false;
    const wanted = /^[0-9a-z_]{1,32}$/.test(prefix)
      ? get<{ ids: string[] }>(`/v1/jobs/resolve?prefix=${prefix}`)
      : null;
    void (wanted ?? Promise.resolve({ ids: [] }))
      .then((found) => {
        if (gone) return;
        if (found.ids.length === 1 && found.ids[0] !== prefix)
          go(`/jobs/${[found.ids[0], ...path.value.slice(2)].join("/")}`, { replace: true });
        else setIds(found.ids);
      })
      .catch(() => setIds([]));
    return () => {
      gone = true;
    };
  }, [prefix]);
  if (!ids) return <Skeleton />;
  if (ids.length === 0)
    return (
      <>
        <h1>No such job</h1>
        <Trouble
          problem={
            new Problem(
              404,
              problem.code,
              `There is no job ${prefix} in this tenant.`,
              "",
              "It may have been forgotten, or belong to another tenant.",
            )
          }
        />
      </>
    );
  return (
    <>
      <h1>Several jobs begin with {prefix}</h1>
      <ul class="plain">
        {ids.map((id) => (
          <li key={id}>
            <JobLink id={id} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Head({ job }: { job: JobDetail }) {
  const { state, spec } = job;
  return (
    <div class="job-head">
      <div class="job-title">
        <h1>{state.name}</h1>
        <PhaseBadge phase={state.phase} />
        <span class="mono dim">{state.id}</span>
      </div>
      <Sentence job={job} />
      <Actions job={job} />
      {state.heldBy ? <p class="stale">Held by {state.heldBy}.</p> : null}
      {spec.labels && Object.keys(spec.labels).length > 0 ? (
        <p class="labels">
          {Object.entries(spec.labels).map(([key, value]) => (
            <a key={key} class="tag" href={href(`/jobs?label=${encodeURIComponent(`${key}=${value}`)}`)}>
              {key}={value}
            </a>
          ))}
        </p>
      ) : null}
    </div>
  );
}

/** What is going on, in one sentence. */
function Sentence({ job }: { job: JobDetail }) {
  const { state, waiting, progress } = job;
  const nodes = [...new Set(state.placements.map((place) => place.node))];
  const where = nodes.length > 2 ? `${nodes.length} nodes` : nodes.join(" and ");
  if (waiting)
    return (
      <p class="sentence">
        Waits for <Age at={state.queuedAt || state.submittedAt} />: {waiting.message}.{" "}
        {waiting.eta ? (
          <>
            <LikelyStart eta={waiting.eta} />.{" "}
          </>
        ) : null}
        <JobLink id={state.id} name="Why" tab="why" />
      </p>
    );
  if (state.phase === "RUNNING" && state.startedAt)
    return (
      <p class="sentence">
        Attempt {state.attempt} runs on {where} for <Age at={state.startedAt} />
        {progress?.fraction != null ? `, ${Math.round(progress.fraction * 100)} % done` : ""}
        {progress?.message ? `: ${progress.message}` : ""}.
      </p>
    );
  if (state.phase === "RETRYING")
    return (
      <p class="sentence">
        Attempt {state.attempt} failed: {state.exit?.message || state.reason}. The next begins{" "}
        {state.retryAt ? (
          <>
            at <Time at={state.retryAt} />
          </>
        ) : (
          "soon"
        )}
        .
      </p>
    );
  if (OVER.has(state.phase) && state.endedAt)
    return (
      <p class="sentence">
        {words(state.phase)} <Age at={state.endedAt} /> ago
        {state.startedAt ? ` after ${duration(state.endedAt - state.startedAt)}` : ""}
        {state.exit?.message ? `: ${state.exit.message}` : state.reason ? `: ${state.reason}` : ""}.
      </p>
    );
  return state.reason ? <p class="sentence">{state.reason}</p> : null;
}

function Actions({ job }: { job: JobDetail }) {
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>();
  const [asking, setAsking] = useState(false);
  const { state } = job;
  const over = OVER.has(state.phase);
  const act = async (what: string) => {
    setBusy(what);
    setProblem(undefined);
    setAsking(false);
    try {
      const done = await call<{ id: string }>("POST", `/v1/jobs/${encodeURIComponent(state.id)}/${what}`, {
        reason: "from the dashboard",
      });
      if (what === "retry" && done.id !== state.id) go(`/jobs/${done.id}`);
      refresh();
    } catch (error) {
      if (error instanceof Problem) setProblem(error);
      else throw error;
    } finally {
      setBusy("");
    }
  };
  const waits = state.phase === "PENDING" || state.phase === "WAITING";
  return (
    <div class="actions">
      {!over && may("jobs:cancel") && !asking ? (
        <button type="button" disabled={busy !== ""} onClick={() => setAsking(true)}>
          Cancel
        </button>
      ) : null}
      {asking ? (
        <span class="confirm">
          Cancel {state.name}? It is final.
          <button type="button" class="danger" onClick={() => void act("cancel")}>
            Cancel it
          </button>
          <button type="button" class="quiet" onClick={() => setAsking(false)}>
            Keep it
          </button>
        </span>
      ) : null}
      {waits && may("jobs:hold") ? (
        <button type="button" disabled={busy !== ""} onClick={() => void act(state.heldBy ? "release" : "hold")}>
          {state.heldBy ? "Release" : "Hold"}
        </button>
      ) : null}
      {(over || state.phase === "RETRYING") && may("jobs:retry") ? (
        <button type="button" disabled={busy !== ""} onClick={() => void act("retry")}>
          {over ? "Run again" : "Try now"}
        </button>
      ) : null}
      {busy ? <span class="dim">…</span> : null}
      {problem ? <Trouble problem={problem} /> : null}
    </div>
  );
}

function asks(job: JobDetail): string {
  const wants = job.spec.resources;
  const parts = [
    wants.gpus
      ? `${wants.gpuMilli < 1000 ? `${wants.gpuMilli / 1000} of ` : ""}${wants.gpus} ${wants.gpuModel ?? "GPU"}${wants.gpus > 1 && !wants.gpuModel ? "s" : ""}`
      : "",
    `${cpus(wants.cpuMilli)} CPUs`,
    mib(wants.memoryMib),
  ];
  const ranks = job.spec.gang?.ranks ?? 1;
  return `${ranks > 1 ? `${ranks} × ` : ""}${parts.filter(Boolean).join(", ")}`;
}

function OverviewTab({ job }: { job: JobDetail }) {
  const { state, spec, used, result } = job;
  return (
    <div class="grid">
      <Panel title="What it asks for">
        <Facts
          facts={[
            ["Command", <code class="wrap">{spec.command.join(" ")}</code>],
            ["Resources", asks(job)],
            ["Priority", words(spec.priority)],
            ["Time limit", spec.timeLimitS ? duration(spec.timeLimitS) : "none"],
            ...(spec.image ? ([["Image", <span class="mono wrap">{spec.image.ref}</span>]] as const) : []),
            ...(spec.runtime ? ([["Runtime", spec.runtime.kind]] as const) : []),
            ...(state.deadlineAt
              ? ([
                  [
                    "Deadline",
                    <>
                      <Time at={state.deadlineAt} /> {job.deadline ? job.deadline.message : ""}
                    </>,
                  ],
                ] as const)
              : []),
            ["Retries", `${Object.values(state.retries).reduce((sum, each) => sum + each, 0)} used`],
          ]}
        />
      </Panel>
      <Panel title="Where and when" more={<a href={href(`/jobs/${state.id}/trace`)}>Trace</a>}>
        <Facts
          facts={[
            [
              "Submitted",
              <>
                <Time at={state.submittedAt} /> by {state.submittedBy || "–"}
                {state.team ? ` (${state.team})` : ""}
              </>,
            ],
            [
              "Waited",
              state.startedAt ? (
                duration(state.startedAt - state.submittedAt)
              ) : state.endedAt ? (
                "never started"
              ) : (
                <Age at={state.submittedAt} />
              ),
            ],
            ["Started", <Time at={state.startedAt} />],
            ["Ended", <Time at={state.endedAt} />],
            ["Attempts", count(state.attempt)],
            ...(state.preemptions
              ? ([["Preempted", <JobLink id={state.id} name={times(state.preemptions)} tab="preemptions" />]] as const)
              : []),
            ...(state.retryOf ? ([["Runs again", <JobLink id={state.retryOf} />]] as const) : []),
            ...(state.flow ? ([["Workflow", <span class="mono">{state.flow}</span>]] as const) : []),
          ]}
        />
        {state.placements.length > 0 ? <Places job={job} /> : null}
      </Panel>
      <Panel title="Cost and energy">
        {state.attempt === 0 ? (
          <Empty title="Nothing was used yet: it has not started." />
        ) : (
          <Facts
            facts={[
              [
                "GPU time",
                `${amount(used.gpuS / 3600)} GPU-hours${used.lostGpuS ? `, ${amount(used.lostGpuS / 3600)} of them lost` : ""}`,
              ],
              ["CPU time", `${amount(used.cpuS / 3600)} CPU-hours held`],
              ["Cost", `${money(used.cost)}${used.perHour ? `, ${money(used.perHour)} per hour now` : ""}`],
              [
                "Energy",
                `${amount(used.energyWh)} Wh, estimated from above${used.watts ? `, ${amount(used.watts)} W now` : ""}`,
              ],
            ]}
          />
        )}
      </Panel>
      <Panel title="Result">
        {result ? (
          <>
            <Facts
              facts={[
                ["Committed", <Time at={result.committedAt} />],
                ["Exit code", result.exit.code ?? "–"],
                [
                  "Value",
                  result.value === null || result.value === undefined ? (
                    "none"
                  ) : (
                    <code class="wrap">{JSON.stringify(result.value)}</code>
                  ),
                ],
              ]}
            />
            <Outputs id={state.id} />
          </>
        ) : (
          <Empty title={OVER.has(state.phase) ? "It has no result: it did not succeed." : "It has no result yet."} />
        )}
      </Panel>
      {job.arrayCounts ? (
        <Panel title="Tasks" class="wide">
          <ul class="counts">
            {Object.entries(job.arrayCounts).map(([phase, number]) => (
              <li key={phase}>
                <b class="num">{count(number)}</b> <PhaseBadge phase={phase as never} />
              </li>
            ))}
          </ul>
          <Command text={`ares jobs --array ${state.id}`} />
        </Panel>
      ) : null}
    </div>
  );
}

function Places({ job }: { job: JobDetail }) {
  const { placements } = job.state;
  return (
    <Rows label="Placements" heads={["Rank", "Node", "GPUs", "CPUs", "Memory"]} numeric={[0, 3, 4]}>
      {placements.slice(0, 64).map((place) => (
        <tr key={place.rank}>
          <td class="num">{place.rank}</td>
          <td>
            <a href={href(`/nodes/${encodeURIComponent(place.node)}`)}>{place.node}</a>
          </td>
          <td class="mono">
            {place.gpus.join(" ") || "–"}
            {job.mockGpus && place.gpus.length > 0 ? " (mock)" : ""}
          </td>
          <td class="num">{cpus(place.cpuMilli)}</td>
          <td class="num">{mib(place.memoryMib)}</td>
        </tr>
      ))}
    </Rows>
  );
}

function Outputs({ id }: { id: string }) {
  const asked = useAsk<OutputList>(may("outputs:read") ? `/v1/jobs/${encodeURIComponent(id)}/outputs` : null, {
    every: 60_000,
  });
  if (!asked.data || asked.data.files.length === 0) return null;
  return (
    <Rows label="Files" heads={["File", "Size"]} numeric={[1]}>
      {asked.data.files.slice(0, 200).map((file) => (
        <tr key={file.path}>
          <td>
            <a
              href={`/v1/jobs/${encodeURIComponent(id)}/outputs/${file.path.split("/").map(encodeURIComponent).join("/")}`}
              download
            >
              {file.path}
            </a>
          </td>
          <td class="num">{bytes(file.size)}</td>
        </tr>
      ))}
    </Rows>
  );
}
