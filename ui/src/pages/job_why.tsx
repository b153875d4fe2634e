// Why does it wait, and what would start it? The decision's own numbers, from the funnel to the smallest change.
import { useState } from "preact/hooks";
import { call, Problem } from "../api/client";
import type { Explanation } from "../api/types";
import { Age, Command, Empty, JobLink, LikelyStart, Panel, Rows, Shown, Time, Trouble } from "../parts/basic";
import { updateOf } from "../parts/change";
import { amount, count, exactly, plural, words } from "../parts/format";
import { refresh, useAsk } from "../state/ask";
import { href } from "../state/route";
import { may } from "../state/session";

const REMEDY: Record<string, string> = {
  yours: "Yours to change: as it is, it can never run here.",
  wait: "Nothing is wrong: others must end first.",
  operator: "An operator must do something.",
};

const STANDS: Record<string, string> = {
  RUNNING: "runs",
  SUCCEEDED: "has succeeded",
  FAILED: "has failed",
  CANCELLED: "was cancelled",
  SKIPPED: "was skipped",
};

export function WhyTab({ id }: { id: string }) {
  const asked = useAsk<Explanation>(`/v1/jobs/${encodeURIComponent(id)}/explain`, { on: id, every: 3000 });
  return (
    <Shown of={asked} rows={8}>
      {(why) =>
        why.reason === null && why.alternatives.length === 0 ? (
          <Empty title={`It does not wait: it ${STANDS[why.phase] ?? `is ${why.phase.toLowerCase()}`}.`}>
            <a href={href(`/jobs/${id}/placement`)}>How its place was chosen</a> ·{" "}
            <a href={href(`/jobs/${id}/trace`)}>Where its time went</a>
          </Empty>
        ) : (
          <Why id={id} why={why} />
        )
      }
    </Shown>
  );
}

function Why({ id, why }: { id: string; why: Explanation }) {
  return (
    <div class="grid">
      <Panel title="Reason" class="wide" more={<span class="dim">as of {exactly(why.at)}</span>}>
        {why.reason ? (
          <div class={`answer ${why.remedy ?? ""}`}>
            <p class="lead">{why.reason.message}</p>
            <p>
              <span class={`tag ${why.remedy ?? ""}`}>{words(why.reason.code)}</span> {REMEDY[why.remedy ?? ""] ?? ""}
            </p>
          </div>
        ) : (
          <p class="lead">It fits now, and is placed in the next cycle.</p>
        )}
        <StartsAt why={why} />
        {why.noEviction ? <p class="dim">No job is moved away for it: {why.noEviction}</p> : null}
      </Panel>
      {why.change ? (
        <Panel title="Smallest change" class="wide">
          <SmallestChange id={id} why={why} />
        </Panel>
      ) : null}
      {why.alternatives.map((ask, at) => (
        <Panel key={at} title={why.alternatives.length > 1 ? `Nodes, alternative ${at + 1}` : "Nodes"} class="wide">
          <Funnel ask={ask} />
        </Panel>
      ))}
      {why.limits.length > 0 ? <Limits why={why} /> : null}
      {why.holders.length > 0 ? <Holders why={why} /> : null}
      {why.factors.length > 0 ? <Rank why={why} /> : null}
    </div>
  );
}

function StartsAt({ why }: { why: Explanation }) {
  const eta = why.eta ?? why.starts;
  return (
    <p>
      {eta ? (
        <>
          <LikelyStart eta={eta} /> <span class="dim">({eta.basis})</span>.{" "}
        </>
      ) : null}
      {why.ahead !== null
        ? `${plural(why.ahead, "job is", "jobs are")} ahead of it${why.aheadInTenant !== null ? `, ${count(why.aheadInTenant)} of them of your tenant` : ""}. `
        : ""}
      {why.promise ? (
        <>
          Room is kept for it from <Time at={why.promise.start} /> on.
        </>
      ) : null}
    </p>
  );
}

/** What to write instead, and with the right to it, the button that writes it. */
function SmallestChange({ id, why }: { id: string; why: Explanation }) {
  const [state, setState] = useState<"" | "busy" | "done">("");
  const [problem, setProblem] = useState<Problem | undefined>();
  const change = why.change;
  if (!change) return null;
  const update = updateOf(change.fields as Record<string, unknown>);
  const apply = async () => {
    setState("busy");
    setProblem(undefined);
    try {
      await call("PATCH", `/v1/jobs/${encodeURIComponent(id)}`, update);
      setState("done");
      refresh();
    } catch (error) {
      setState("");
      if (error instanceof Problem) setProblem(error);
      else throw error;
    }
  };
  return (
    <>
      <p class="lead">{change.message}</p>
      <p class="mono small wrap">
        {Object.entries(change.fields)
          .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
          .join(", ")}
      </p>
      {update && may("jobs:update") ? (
        <button type="button" class="main" disabled={state !== ""} onClick={() => void apply()}>
          {state === "busy" ? "Changing …" : state === "done" ? "Changed" : "Change the job so"}
        </button>
      ) : (
        <Command text={`ares explain ${id}`} />
      )}
      {problem ? <Trouble problem={problem} /> : null}
    </>
  );
}

function Funnel({ ask }: { ask: Explanation["alternatives"][number] }) {
  const most = Math.max(1, ...ask.funnel.map((step) => step.nodes));
  // What comes after the filter that left none was never asked.
  const none = ask.funnel.findIndex((step) => step.nodes === 0);
  const asked = none < 0 ? ask.funnel : ask.funnel.slice(0, none + 1);
  return (
    <>
      {ask.reason ? <p class="dim">{ask.reason.message}</p> : <p>It would fit now.</p>}
      {ask.funnel.length > 0 ? (
        <ol class="funnel">
          {folded(asked).map((step, at) => (
            <li key={at} class={step.nodes === 0 ? "none" : ""}>
              <span class="funnel-name" title={step.filters.join(", ")}>
                {step.filters.length > 2
                  ? `${step.filters[0]} and ${step.filters.length - 1} more`
                  : step.filters.join(", ")}
              </span>
              <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect class="bar-part" width={(100 * step.nodes) / most} height="10" />
              </svg>
              <span class="num">{plural(step.nodes, "node")} left</span>
            </li>
          ))}
        </ol>
      ) : null}
      {ask.nearest.length > 0 ? (
        <Rows label="Nearest misses" heads={["Nearest miss", "Refused by", "What it lacks"]}>
          {ask.nearest.map((miss) => (
            <tr key={miss.node}>
              <td>
                <a href={href(`/nodes/${encodeURIComponent(miss.node)}`)}>{miss.node}</a>
              </td>
              <td>{miss.refusedBy}</td>
              <td>{miss.message}</td>
            </tr>
          ))}
        </Rows>
      ) : null}
      {ask.wakes.length > 0 ? <p class="dim small">Looked at again when: {ask.wakes.join(", ")}.</p> : null}
    </>
  );
}

/** Filters one after another that leave the same nodes are one line: what matters is who takes some away. */
export function folded(steps: readonly { filter: string; nodes: number }[]): { filters: string[]; nodes: number }[] {
  const found: { filters: string[]; nodes: number }[] = [];
  for (const step of steps) {
    const last = found.at(-1);
    if (last && last.nodes === step.nodes) last.filters.push(step.filter);
    else found.push({ filters: [step.filter], nodes: step.nodes });
  }
  return found;
}

function Limits({ why }: { why: Explanation }) {
  return (
    <Panel title="Limits" class="wide">
      <Rows label="Limits" heads={["Of", "Resource", "Asked", "Used", "Limit", "Soft limit"]} numeric={[2, 3, 4, 5]}>
        {why.limits.map((level) => (
          <tr key={`${level.path} ${level.resource}`}>
            <td>{level.path}</td>
            <td>{level.resource}</td>
            <td class="num">{count(level.asked)}</td>
            <td class="num">{count(level.used)}</td>
            <td class="num">{level.limit === null ? "–" : count(level.limit)}</td>
            <td class="num">{level.soft === null ? "–" : count(level.soft)}</td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}

function Holders({ why }: { why: Explanation }) {
  return (
    <Panel title="Who holds it">
      <Rows label="Holders" heads={["Node", "Job", "GPUs", "CPUs", "For", "Expected end"]} numeric={[2, 3]}>
        {why.holders.map((holder, at) => (
          <tr key={at}>
            <td>{holder.node}</td>
            <td>
              {holder.job ? (
                <JobLink id={holder.job} />
              ) : (
                <span class="dim">{holder.reserved ? "kept for another job" : "of another tenant"}</span>
              )}
            </td>
            <td class="num">{amount(holder.gpus)}</td>
            <td class="num">{amount(holder.cpus)}</td>
            <td>{holder.since ? <Age at={holder.since} /> : "–"}</td>
            <td>
              <Time at={holder.endsAt} />
            </td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}

function Rank({ why }: { why: Explanation }) {
  return (
    <Panel title="Its rank" more={<span class="num">{why.rank === null ? "" : why.rank.toFixed(3)}</span>}>
      <Rows label="Factors" heads={["Factor", "Value", "Weight", "Gives"]} numeric={[1, 2, 3]}>
        {why.factors.map((factor) => (
          <tr key={`${factor.sum} ${factor.name}`}>
            <td>{factor.name}</td>
            <td class="num">{factor.value.toFixed(3)}</td>
            <td class="num">{factor.weight}</td>
            <td class="num">{factor.product.toFixed(3)}</td>
          </tr>
        ))}
      </Rows>
      <p class="dim small">Products of the first sum add up to the rank; the others decide between equals.</p>
    </Panel>
  );
}
