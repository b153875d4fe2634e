// Which clusters are healthy, and how fresh is what is known of them?
import { useState } from "preact/hooks";
import { call, type Problem } from "../api/client";
import type { MemberView, UplinkView } from "../api/types";
import { Age, Empty, Facts, Meter, Panel, Rows, Shown, Trouble } from "../parts/basic";
import { count, cpus, duration, mib, plural } from "../parts/format";
import { type Asked, refresh, useAsk } from "../state/ask";
import { href } from "../state/route";
import { may } from "../state/session";

interface Room {
  gpus: number;
  gpusFree: number;
  cpuMilli: number;
  cpuMilliFree: number;
  memoryMib: number;
  memoryMibFree: number;
}

/** All nodes of a cluster together, as it last said. */
export function roomOf(member: MemberView): Room {
  const room: Room = { gpus: 0, gpusFree: 0, cpuMilli: 0, cpuMilliFree: 0, memoryMib: 0, memoryMibFree: 0 };
  for (const shape of member.report?.shapes ?? []) {
    room.gpus += shape.gpus * shape.nodes;
    room.gpusFree += shape.freeGpus;
    room.cpuMilli += shape.cpuMilli * shape.nodes;
    room.cpuMilliFree += shape.freeCpuMilli;
    room.memoryMib += shape.memoryMib * shape.nodes;
    room.memoryMibFree += shape.freeMemoryMib;
  }
  return room;
}

const isSilent = (member: MemberView) => member.reach === "UNREACHABLE" || member.reach === "";
const counts = (member: MemberView) => member.state !== "LEFT" && member.state !== "DEAD";

/** "2 of 3 clusters, c2 silent 4m": what is said above numbers that are not of all. Empty when all are there. */
export function partial(clusters: readonly MemberView[]): string {
  const there = clusters.filter(counts);
  const away = there.filter(isSilent);
  if (away.length === 0) return "";
  const named = away.slice(0, 3).map((member) => `${member.name} ${heard(member, "silent")}`);
  const more = away.length > 3 ? `, ${count(away.length - 3)} more` : "";
  return `${count(there.length - away.length)} of ${plural(there.length, "cluster")}: ${named.join(", ")}${more}`;
}

const heard = (member: MemberView, word: string) =>
  member.heardS === null ? "never heard of by this server" : `${word} ${duration(member.heardS)}`;

export function ClustersPage({ name }: { name: string }) {
  const asked = useAsk<{ clusters: MemberView[] }>("/v1/federation/clusters", { every: 4000 });
  const uplink = useAsk<UplinkView>("/v1/federation/uplink", { every: 5000 });
  return (
    <>
      <h1>{name || "Clusters"}</h1>
      <Uplink of={uplink} />
      <Shown of={asked} rows={5}>
        {({ clusters }) => {
          if (!name) return clusters.length === 0 ? <None uplink={uplink} /> : <List clusters={clusters} />;
          const found = clusters.find((member) => member.name === name);
          return found ? (
            <Member member={found} />
          ) : (
            <Empty title={`There is no cluster ${name}.`}>
              <a href={href("/clusters")}>All clusters</a>
            </Empty>
          );
        }}
      </Shown>
    </>
  );
}

/** In a cluster: how it stands with its global plane. */
function Uplink({ of }: { of: Asked<UplinkView> }) {
  const view = of.data;
  if (!view) return null;
  const tone = view.mode === "FEDERATED" ? "good" : view.mode === "RECONCILING" ? "operator" : "bad";
  const says = {
    FEDERATED: "It takes jobs from there.",
    AUTONOMOUS: "It is cut off: what it has goes on, and people here may submit.",
    RECONCILING: "It is back, and agrees with the global plane on every job.",
  } as const;
  return (
    <Panel title="This cluster" more={<span class={`tag ${tone}`}>{view.mode.toLowerCase()}</span>}>
      <p>
        <b>{view.name}</b> of {view.api}: {view.mode.toLowerCase()} for {duration(view.modeS)}
        {view.why ? ` (${view.why})` : ""}. {says[view.mode]} {plural(view.taken, "job")} of the global plane{" "}
        {view.taken === 1 ? "is" : "are"} here.
      </p>
    </Panel>
  );
}

function None({ uplink }: { uplink: Asked<UplinkView> }) {
  if (uplink.data) return <Empty title="Other clusters are listed by the global plane." />;
  return (
    <Empty title="This server is a cluster of its own." command="ares token join --cluster NAME">
      Its machines are under <a href={href("/nodes")}>Nodes</a>. As a global plane it routes jobs to clusters that join
      it: make a token for each, and run `ares cluster join` there.
    </Empty>
  );
}

function List({ clusters }: { clusters: readonly MemberView[] }) {
  const away = partial(clusters);
  const there = clusters.filter(counts);
  const all = there.map(roomOf);
  const sum = (part: (room: Room) => number) => all.reduce((total, room) => total + part(room), 0);
  return (
    <>
      {away ? (
        <p class="stale" role="status">
          <span aria-hidden="true">⚠</span> {away}. Its jobs stay its own and go on there; numbers of it are as old as
          that. Its costs and promises are in its own books, and come when it is back.
        </p>
      ) : null}
      <Panel title="Together" more={<span class="dim">{plural(there.length, "cluster")}</span>}>
        <div class="charts">
          <Held label="GPUs held" all={sum((room) => room.gpus)} free={sum((room) => room.gpusFree)} />
          <Held
            label="CPUs held"
            all={sum((room) => room.cpuMilli)}
            free={sum((room) => room.cpuMilliFree)}
            text={cpus}
          />
          <Held
            label="Memory held"
            all={sum((room) => room.memoryMib)}
            free={sum((room) => room.memoryMibFree)}
            text={mib}
          />
        </div>
      </Panel>
      <Rows
        label="Clusters"
        heads={["Cluster", "State", "Reach", "Heard", "Nodes", "GPUs free", "Running", "Waiting", "Ours", "Region"]}
        numeric={[4, 5, 6, 7, 8]}
      >
        {clusters.map((member) => {
          const room = roomOf(member);
          return (
            <tr key={member.name}>
              <td>
                <a href={href(`/clusters/${encodeURIComponent(member.name)}`)}>{member.name}</a>
              </td>
              <td>
                <State member={member} />
              </td>
              <td>
                <Reach member={member} />
              </td>
              <td>{member.heardS === null ? "never" : `${duration(member.heardS)} ago`}</td>
              <td class="num">
                {member.report ? `${count(member.report.readyNodes)} of ${count(member.report.nodes)}` : "–"}
              </td>
              <td class="num">{room.gpus ? `${count(room.gpusFree)} of ${count(room.gpus)}` : "–"}</td>
              <td class="num">{member.report ? count(member.report.running) : "–"}</td>
              <td class="num">{member.report ? count(member.report.pending) : "–"}</td>
              <td class="num">
                {count(member.confirmed)}
                {member.offered ? ` +${count(member.offered)}` : ""}
              </td>
              <td>{member.region || "–"}</td>
            </tr>
          );
        })}
      </Rows>
      <p class="dim small">
        Running and waiting: as the cluster counts them, with its local jobs. Ours: jobs of this global plane that the
        cluster has, and + those that are offered to it.
      </p>
    </>
  );
}

function Held(props: { label: string; all: number; free: number; text?: (value: number) => string }) {
  const text = props.text ?? count;
  const held = props.all - props.free;
  return (
    <Meter
      label={props.label}
      part={held}
      all={props.all}
      text={props.all ? `${text(held)} of ${text(props.all)}` : "none"}
    />
  );
}

const STATES: Record<MemberView["state"], [string, string]> = {
  JOINING: ["operator", "… joining"],
  ACTIVE: ["good", "✓ active"],
  DRAINING: ["operator", "⇥ draining"],
  LEFT: ["wait", "← left"],
  DEAD: ["bad", "✕ dead"],
};

function State({ member }: { member: MemberView }) {
  const [tone, text] = STATES[member.state];
  return <span class={`tag ${tone}`}>{text}</span>;
}

function Reach({ member }: { member: MemberView }) {
  if (member.reach === "REACHABLE") return <span class="tag good">✓ reachable</span>;
  if (member.reach === "LATE") return <span class="tag operator">! late</span>;
  if (member.reach === "UNREACHABLE") return <span class="tag bad">✕ silent</span>;
  return <span class="dim">not heard of</span>;
}

function Member({ member }: { member: MemberView }) {
  const room = roomOf(member);
  const report = member.report;
  return (
    <>
      <div class="grid">
        <Panel title="State" more={<State member={member} />}>
          <Facts
            facts={[
              [
                "For",
                <>
                  <Age at={member.since} />
                  {member.note ? `: ${member.note}` : ""}
                </>,
              ],
              ["Reach", <Reach member={member} />],
              ["Heard", member.heardS === null ? "never, by this server" : `${duration(member.heardS)} ago`],
              ["Kind", member.kind],
              ["Region", member.region || "–"],
              ["Code", `l${member.code}: ids of jobs that were submitted there begin with it`],
              ["Our jobs", `${count(member.confirmed)} there, ${count(member.offered)} offered`],
              ...(report
                ? ([
                    [
                      "Itself",
                      `${report.mode.toLowerCase() || "–"}, ${plural(report.local, "local job")} not known here`,
                    ],
                    ["Queue", `${count(report.pending)} wait, ${count(report.running)} run`],
                    ["Link", `${count(report.rttMs)} ms`],
                    ["Version", report.version || "–"],
                  ] as const)
                : []),
            ]}
          />
          {may("clusters:admin") ? <Steer member={member} /> : null}
        </Panel>
        <Panel title="Room" more={<span class="dim">{report ? "as it last said" : "not known"}</span>}>
          <Held label="GPUs held" all={room.gpus} free={room.gpusFree} />
          <Held label="CPUs held" all={room.cpuMilli} free={room.cpuMilliFree} text={cpus} />
          <Held label="Memory held" all={room.memoryMib} free={room.memoryMibFree} text={mib} />
        </Panel>
      </div>
      {report && report.shapes.length > 0 ? (
        <Panel title="Machines">
          <Rows
            label="Machines"
            heads={["Nodes", "Each: CPUs", "Memory", "GPUs", "Model", "Free CPUs", "Free GPUs"]}
            numeric={[0, 1, 2, 3, 5, 6]}
          >
            {report.shapes.map((shape) => (
              <tr key={`${shape.cpuMilli} ${shape.memoryMib} ${shape.gpus} ${shape.gpuModel}`}>
                <td class="num">{count(shape.nodes)}</td>
                <td class="num">{cpus(shape.cpuMilli)}</td>
                <td class="num">{mib(shape.memoryMib)}</td>
                <td class="num">{count(shape.gpus)}</td>
                <td>{shape.gpuModel || "–"}</td>
                <td class="num">{cpus(shape.freeCpuMilli)}</td>
                <td class="num">{count(shape.freeGpus)}</td>
              </tr>
            ))}
          </Rows>
        </Panel>
      ) : null}
      <p>
        <a href={href("/clusters")}>All clusters</a>
      </p>
    </>
  );
}

/** Drain and resume. To declare a cluster dead takes more care than a button has. */
function Steer({ member }: { member: MemberView }) {
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>();
  const change = async (verb: "drain" | "resume") => {
    try {
      await call("POST", `/v1/federation/clusters/${encodeURIComponent(member.name)}/${verb}`);
      setProblem(undefined);
    } catch (error) {
      setProblem(error as Problem);
    }
    setSure(false);
    refresh();
  };
  return (
    <div class="actions">
      {member.state === "ACTIVE" && !sure ? (
        <button type="button" onClick={() => setSure(true)}>
          Drain
        </button>
      ) : null}
      {member.state === "ACTIVE" && sure ? (
        <>
          <span>It is offered nothing more, and what has not begun comes back. What runs goes on.</span>
          <button type="button" class="main" onClick={() => void change("drain")}>
            Drain it
          </button>
          <button type="button" onClick={() => setSure(false)}>
            Leave it
          </button>
        </>
      ) : null}
      {member.state === "DRAINING" ? (
        <button type="button" onClick={() => void change("resume")}>
          Resume
        </button>
      ) : null}
      {problem ? <Trouble problem={problem} /> : null}
    </div>
  );
}
