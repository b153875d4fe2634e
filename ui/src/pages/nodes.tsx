// Which machines are healthy, and how fresh is that?
import { query } from "../api/client";
import type { GpuMap, JobPage, NodeView } from "../api/types";
import { Age, Empty, Facts, JobLink, Meter, Panel, PhaseBadge, Rows, Shown } from "../parts/basic";
import { count, cpus, duration, mib, plural } from "../parts/format";
import { Grid } from "../parts/grid";
import { useAsk } from "../state/ask";
import { go, href } from "../state/route";
import { stateOf, told } from "./gpus";

const HEADS = [
  { key: "name", label: "Node" },
  { key: "state", label: "State" },
  { key: "phase", label: "Pool" },
  { key: "gpus", label: "GPUs free", class: "num" },
  { key: "cpus", label: "CPUs free", class: "num" },
  { key: "memory", label: "Memory free", class: "num" },
  { key: "jobs", label: "Jobs", class: "num" },
  { key: "seen", label: "Heard of", class: "num" },
] as const;

export function NodesPage() {
  const asked = useAsk<{ nodes: NodeView[] }>("/v1/nodes", { every: 4000, on: "any" });
  return (
    <div class="fill">
      <h1>Nodes</h1>
      <Shown of={asked} rows={8}>
        {({ nodes }) =>
          nodes.length === 0 ? (
            <Empty title="No machine has joined." command="ares node join --help">
              An agent on a machine brings it in.
            </Empty>
          ) : (
            <Grid
              label="Nodes"
              heads={HEADS}
              rows={nodes}
              total={nodes.length}
              rowHeight={34}
              keyOf={(node) => node.name}
              cells={(node) => [
                <a href={href(`/nodes/${encodeURIComponent(node.name)}`)}>{node.name}</a>,
                <State node={node} />,
                node.info.pool,
                node.info.gpus.length ? `${count(node.gpusFree)} of ${count(node.info.gpus.length)}` : "–",
                `${cpus(node.cpuMilliFree)} of ${cpus(node.info.cpuMilli)}`,
                `${mib(node.memoryMibFree)}`,
                count(node.running),
                node.leaseAgeS === null ? "never" : `${duration(node.leaseAgeS)} ago`,
              ]}
              open={(node) => go(`/nodes/${node.name}`)}
              foot={`${plural(nodes.length, "node")}, ${count(nodes.filter((node) => node.ready).length)} ready`}
            />
          )
        }
      </Shown>
    </div>
  );
}

function State({ node }: { node: NodeView }) {
  if (!node.ready) return <span class="tag bad">✕ silent</span>;
  if (node.drainedBy) return <span class="tag operator">⇥ draining</span>;
  if (node.cordoned) return <span class="tag operator">⊘ cordoned</span>;
  return <span class="tag good">✓ ready</span>;
}

export function NodePage({ name }: { name: string }) {
  const asked = useAsk<NodeView>(`/v1/nodes/${encodeURIComponent(name)}`, { every: 4000, on: "any" });
  const jobs = useAsk<JobPage>(`/v1/jobs?node=${encodeURIComponent(name)}&phase=RUNNING,STAGING&limit=50`, {
    every: 5000,
    on: "any",
  });
  return (
    <>
      <h1>{name}</h1>
      <Shown of={asked} rows={8}>
        {(node) => (
          <div class="grid">
            <Panel title="State" more={<State node={node} />}>
              <Facts
                facts={[
                  ["Heard of", node.leaseAgeS === null ? "never" : `${duration(node.leaseAgeS)} ago`],
                  ["Pool", node.info.pool],
                  ["Place", [node.info.region, node.info.zone, node.info.rack].filter(Boolean).join(" / ") || "–"],
                  ["Agent", `${node.info.agentVersion}, incarnation ${node.incarnation}`],
                  ["Kernel", node.info.kernel || "–"],
                  ["Isolation", node.info.isolationLevel],
                  [
                    "Taints",
                    [...node.info.taints, ...node.taints]
                      .map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""} (${taint.effect})`)
                      .join(", ") || "none",
                  ],
                  ...(node.drainedBy ? ([["Drained by", node.drainedBy]] as const) : []),
                ]}
              />
            </Panel>
            <Panel title="Room">
              <Meter
                label="GPUs held"
                part={node.info.gpus.length - node.gpusFree}
                all={node.info.gpus.length}
                text={
                  node.info.gpus.length
                    ? `${count(node.info.gpus.length - node.gpusFree)} of ${count(node.info.gpus.length)}`
                    : "none"
                }
              />
              <Meter
                label="CPUs held"
                part={node.info.cpuMilli - node.cpuMilliFree}
                all={node.info.cpuMilli}
                text={`${cpus(node.info.cpuMilli - node.cpuMilliFree)} of ${cpus(node.info.cpuMilli)}`}
              />
              <Meter
                label="Memory held"
                part={node.info.memoryMib - node.memoryMibFree}
                all={node.info.memoryMib}
                text={`${mib(node.info.memoryMib - node.memoryMibFree)} of ${mib(node.info.memoryMib)}`}
              />
              {node.info.gpus.length > 0 ? (
                <p class="dim small">
                  {node.info.gpus[0]?.model}, {mib(node.info.gpus[0]?.memoryMib ?? 0)} each
                  {node.info.gpus[0]?.vendor === "mock" ? ", mock ones" : ""}
                </p>
              ) : null}
            </Panel>
          </div>
        )}
      </Shown>
      <Gpus name={name} />
      <Panel
        title="Your jobs here"
        more={<a href={href(`/jobs?phase=RUNNING&node=${encodeURIComponent(name)}`)}>All</a>}
      >
        <Shown of={jobs} rows={3}>
          {(page) =>
            page.jobs.length === 0 ? (
              <Empty title="None of your tenant's jobs runs here." />
            ) : (
              <Rows label="Jobs" heads={["Job", "Phase", "By", "Runs for"]}>
                {page.jobs.map((job) => (
                  <tr key={job.id}>
                    <td>
                      <JobLink id={job.id} name={job.name} />
                    </td>
                    <td>
                      <PhaseBadge phase={job.phase} />
                    </td>
                    <td>{job.submittedBy}</td>
                    <td>{job.startedAt ? <Age at={job.startedAt} /> : "–"}</td>
                  </tr>
                ))}
              </Rows>
            )
          }
        </Shown>
      </Panel>
    </>
  );
}

/** Each of its GPUs: what is held of it, by whom, and what its driver tells. Nothing where it has none. */
function Gpus({ name }: { name: string }) {
  const asked = useAsk<GpuMap>(`/v1/gpus${query({ node: name })}`, { every: 6000 });
  const map = asked.data;
  if (!map || map.index.length === 0) return null;
  const tells = map.busy.some((busy) => busy >= 0);
  return (
    <Panel title="GPUs" more={<a href={href("/gpus")}>All GPUs</a>}>
      <Rows label="GPUs" heads={["GPU", "State", "Job", "Busy", "Draws", "Heat"]} numeric={[3, 4, 5]}>
        {map.index.map((index, gpu) => {
          const job = map.jobs[map.job[gpu] ?? -1];
          return (
            <tr key={index}>
              <td>{index}</td>
              <td>{stateOf(map, gpu)}</td>
              <td>
                {job ? (
                  <JobLink id={job.id} name={job.name} />
                ) : (map.heldMilli[gpu] ?? 0) > 0 ? (
                  "of another tenant"
                ) : (
                  "–"
                )}
              </td>
              <td class="num">{told(map.busy[gpu], "%")}</td>
              <td class="num">{told(map.watts[gpu], "W")}</td>
              <td class="num">{told(map.celsius[gpu], "°C")}</td>
            </tr>
          );
        })}
      </Rows>
      {tells ? null : (
        <p class="dim small">
          {map.nodes[0]?.mock
            ? "Mock GPUs have no driver: their activity, draw and heat are not known."
            : "Drivers are asked about GPUs that a job of yours runs on alone."}
        </p>
      )}
    </Panel>
  );
}
