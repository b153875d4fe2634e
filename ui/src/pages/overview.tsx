// Is all well, and what needs me?
import type { AlertRecord, JobPage, MemberView, Overview, Phase } from "../api/types";
import { Age, Empty, JobLink, Meter, now, Panel, PhaseBadge, Rows, Shown, Skeleton, Time } from "../parts/basic";
import { count, cpus, duration, mib, percent, plural, words } from "../parts/format";
import { useAsk } from "../state/ask";
import { href } from "../state/route";
import { may } from "../state/session";
import { partial } from "./clusters";
import { Charts, GPUS, QUEUE, RUNNING, WAITS } from "./history";
import { Kept, serviceName } from "./sla";

const LIVE: readonly Phase[] = ["RUNNING", "STAGING", "PENDING", "WAITING", "RETRYING", "PREEMPTED"];
const HOUR = [QUEUE, RUNNING, GPUS, WAITS];
const ENDED: readonly Phase[] = ["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "UNKNOWN"];

export function OverviewPage() {
  const asked = useAsk<Overview>("/v1/overview", { on: "any", every: 4000 });
  return (
    <>
      <h1>Overview</h1>
      <Shown of={asked} rows={8}>
        {(data) => (
          <>
            <Verdict data={data} />
            <div class="grid">
              <Panel title="Jobs" more={<span class="dim">of {data.tenant}</span>}>
                <Counts data={data} phases={LIVE} />
                <Counts data={data} phases={ENDED} />
              </Panel>
              <Panel title="Capacity" more={<a href={href("/gpus")}>GPU map</a>}>
                <Capacity data={data} />
              </Panel>
              <Panel title="Why jobs wait" more={<a href={href("/queue")}>Queue</a>} class="wide">
                <Reasons data={data} />
              </Panel>
              {data.promises.length > 0 ? (
                <Panel title="Deadlines, the last day" more={<a href={href("/sla")}>SLA</a>} class="wide">
                  <Promises data={data} />
                </Panel>
              ) : null}
              {data.tenants.length > 1 ? (
                <Panel title="Tenants" class="wide">
                  <Tenants data={data} />
                </Panel>
              ) : null}
            </div>
          </>
        )}
      </Shown>
      {may("metrics:read") ? (
        <Panel title="The last hour" more={<a href={href("/history")}>History</a>}>
          <Charts charts={HOUR} sinceS={3600} />
        </Panel>
      ) : null}
      <div class="grid">
        <Panel title="Failed lately" more={<a href={href("/jobs?phase=FAILED")}>All</a>}>
          <Lately phase="FAILED" none="No job has failed." />
        </Panel>
        <Panel title="Running now" more={<a href={href("/jobs?phase=RUNNING")}>All</a>}>
          <Lately phase="RUNNING" none="Nothing runs." />
        </Panel>
      </div>
    </>
  );
}

/** One sentence that says whether there is something to do. */
function Verdict({ data }: { data: Overview }) {
  const yours = data.waiting.filter((group) => group.remedy === "yours").reduce((sum, group) => sum + group.jobs, 0);
  const operator = data.waiting
    .filter((group) => group.remedy === "operator")
    .reduce((sum, group) => sum + group.jobs, 0);
  const silent = data.nodes - data.nodesReady;
  const alerts = useAsk<{ alerts: AlertRecord[] }>(may("alerts:admin") ? "/v1/alerts" : null, { every: 10_000 });
  const open = alerts.data?.alerts.filter((alert) => alert.state === "open") ?? [];
  const clusters = useAsk<{ clusters: MemberView[] }>("/v1/federation/clusters", { every: 10_000 });
  const away = partial(clusters.data?.clusters ?? []);
  const says: { tone: string; text: string; to: string }[] = [];
  if (away) says.push({ tone: "bad", text: away, to: "/clusters" });
  if (!data.leader) says.push({ tone: "bad", text: "No server leads: no job is placed.", to: "" });
  if (open.length > 0) says.push({ tone: "bad", text: plural(open.length, "open alert"), to: "/alerts" });
  if (silent > 0) says.push({ tone: "bad", text: `${plural(silent, "node is", "nodes are")} silent`, to: "/nodes" });
  if (yours > 0)
    says.push({
      tone: "warn",
      text: `${plural(yours, "job needs", "jobs need")} a change to ever run`,
      to: "/queue?remedy=yours",
    });
  if (operator > 0)
    says.push({
      tone: "warn",
      text: `${plural(operator, "job waits", "jobs wait")} for an operator`,
      to: "/queue?remedy=operator",
    });
  const risky = data.promises.reduce((sum, service) => sum + service.atRisk, 0);
  if (risky > 0)
    says.push({
      tone: "warn",
      text: `${plural(risky, "job is", "jobs are")} about to miss ${risky === 1 ? "its" : "their"} deadline`,
      to: "/sla",
    });
  if (data.nodes === 0) says.push({ tone: "warn", text: "There are no nodes.", to: "/nodes" });
  if (says.length === 0) {
    return (
      <p class="verdict good">
        <span aria-hidden="true">✓</span> Nothing needs you.
        <span class="dim"> As of {duration(now.value - data.at)} ago.</span>
      </p>
    );
  }
  return (
    <ul class="verdict">
      {says.map((said) => (
        <li key={said.text} class={said.tone}>
          <span aria-hidden="true">{said.tone === "bad" ? "✕" : "!"}</span>{" "}
          {said.to ? <a href={href(said.to)}>{said.text}</a> : said.text}
        </li>
      ))}
    </ul>
  );
}

function Counts({ data, phases }: { data: Overview; phases: readonly Phase[] }) {
  return (
    <ul class="counts">
      {phases.map((phase) => (
        <li key={phase}>
          <a href={href(`/jobs?phase=${phase}`)} class={(data.jobs[phase] ?? 0) === 0 ? "none" : ""}>
            <b class="num">{count(data.jobs[phase] ?? 0)}</b>
            <PhaseBadge phase={phase} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function Promises({ data }: { data: Overview }) {
  return (
    <div class="charts">
      {data.promises.map((service) => (
        <div key={service.name}>
          <h3>
            {serviceName(service)} <span class="dim small">{plural(service.open, "open one", "open ones")}</span>
          </h3>
          <Kept service={service} />
          {service.atRiskJobs.length > 0 ? (
            <p class="warn-text small">
              At risk:{" "}
              {service.atRiskJobs.slice(0, 3).map((id, at) => (
                <span key={id}>
                  {at > 0 ? ", " : ""}
                  <JobLink id={id} tab="why" />
                </span>
              ))}
              {service.atRisk > 3 ? ` and ${count(service.atRisk - 3)} more` : ""}
            </p>
          ) : null}
        </div>
      ))}
    </div>
  );
}

function Tenants({ data }: { data: Overview }) {
  return (
    <Rows label="Tenants" heads={["Tenant", "Running", "Queued", "Waiting for jobs"]} numeric={[1, 2, 3]}>
      {data.tenants.map((tenant) => (
        <tr key={tenant.tenant}>
          <td>
            <a href={`/ui/?tenant=${encodeURIComponent(tenant.tenant)}`}>{tenant.tenant}</a>
          </td>
          <td class="num">{count((tenant.jobs.RUNNING ?? 0) + (tenant.jobs.STAGING ?? 0))}</td>
          <td class="num">
            {count((tenant.jobs.PENDING ?? 0) + (tenant.jobs.RETRYING ?? 0) + (tenant.jobs.PREEMPTED ?? 0))}
          </td>
          <td class="num">{count(tenant.jobs.WAITING ?? 0)}</td>
        </tr>
      ))}
    </Rows>
  );
}

function Capacity({ data }: { data: Overview }) {
  return (
    <>
      <Meter
        label={data.mockGpus ? "GPUs held (mock)" : "GPUs held"}
        part={data.gpusHeld}
        all={data.gpus}
        text={`${count(data.gpusHeld)} of ${count(data.gpus)} · ${percent(data.gpusHeld, data.gpus)} %`}
      />
      <Meter
        label="CPUs held"
        part={data.cpuMilliHeld}
        all={data.cpuMilli}
        text={`${cpus(data.cpuMilliHeld)} of ${cpus(data.cpuMilli)}`}
      />
      <Meter
        label="Memory held"
        part={data.memoryMibHeld}
        all={data.memoryMib}
        text={`${mib(data.memoryMibHeld)} of ${mib(data.memoryMib)}`}
      />
      <Meter
        label="Nodes ready"
        part={data.nodesReady}
        all={data.nodes}
        tone={data.nodesReady < data.nodes ? "warn" : "good"}
        text={`${count(data.nodesReady)} of ${count(data.nodes)}${data.nodesCordoned ? `, ${count(data.nodesCordoned)} cordoned` : ""}`}
      />
    </>
  );
}

const REMEDY: Record<string, string> = { yours: "yours to change", wait: "others must end", operator: "an operator's" };

function Reasons({ data }: { data: Overview }) {
  if (data.waiting.length === 0)
    return <Empty title="No job is queued." command="ares submit --gpus 1 --name hello -- nvidia-smi" />;
  const most = Math.max(...data.waiting.map((group) => group.jobs));
  return (
    <ul class="reasons">
      {data.waiting.map((group) => (
        <li key={group.code}>
          <div class="reason-head">
            <a href={href(`/queue?reason=${group.code}`)}>{words(group.code)}</a>
            <span class={`tag ${group.remedy}`}>{REMEDY[group.remedy]}</span>
            <b class="num">{count(group.jobs)}</b>
          </div>
          <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
            <rect class="bar-part" width={(100 * group.jobs) / most} height="4" />
          </svg>
          <p class="dim small">
            {group.message} <JobLink id={group.example} tab="why" />
          </p>
        </li>
      ))}
      {data.oldestQueuedAt ? (
        <li class="dim small">
          Longest in the queue: <JobLink id={data.oldestJob} tab="why" />, for <Age at={data.oldestQueuedAt} />.
        </li>
      ) : null}
    </ul>
  );
}

function Lately({ phase, none }: { phase: Phase; none: string }) {
  const asked = useAsk<JobPage>(`/v1/jobs?phase=${phase}&limit=6&arrays=whole`, { on: "any" });
  if (asked.data === undefined && !asked.problem) return <Skeleton rows={4} />;
  return (
    <Shown of={asked}>
      {(page) =>
        page.jobs.length === 0 ? (
          <Empty title={none} />
        ) : (
          <Rows
            label={`${words(phase)} jobs`}
            heads={["Job", "By", phase === "RUNNING" ? "Runs for" : "Ended", phase === "RUNNING" ? "On" : "Why"]}
          >
            {page.jobs.map((job) => (
              <tr key={job.id}>
                <td>
                  <JobLink id={job.id} name={job.name} tab={phase === "FAILED" ? "logs" : ""} />
                </td>
                <td>{job.submittedBy || "–"}</td>
                <td>{phase === "RUNNING" && job.startedAt ? <Age at={job.startedAt} /> : <Time at={job.endedAt} />}</td>
                <td class="clip">
                  {phase === "RUNNING"
                    ? [...new Set(job.placements.map((place) => place.node))].join(", ")
                    : job.exit?.message || job.reason}
                </td>
              </tr>
            ))}
          </Rows>
        )
      }
    </Shown>
  );
}
