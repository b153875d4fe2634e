import { render } from "preact";
import { acting } from "./api/client";
import { AlertsPage } from "./pages/alerts";
import { AuditPage } from "./pages/audit";
import { ClustersPage } from "./pages/clusters";
import { CostPage } from "./pages/cost";
import { GpusPage } from "./pages/gpus";
import { HealthPage } from "./pages/health";
import { HistoryPage } from "./pages/history";
import { InsightsPage } from "./pages/insights";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { LoginPage } from "./pages/login";
import { NodePage, NodesPage } from "./pages/nodes";
import { OverviewPage } from "./pages/overview";
import { QueuePage } from "./pages/queue";
import { ReferencePage } from "./pages/reference";
import { ReportsPage } from "./pages/reports";
import { SlaPage } from "./pages/sla";
import { WhatIfPage } from "./pages/whatif";
import { Empty, Skeleton } from "./parts/basic";
import { listenForKeys } from "./parts/keys";
import { Shell } from "./parts/shell";
import { startLive } from "./state/live";
import { followLinks, href, params, path } from "./state/route";
import { begin, session } from "./state/session";
import "./state/prefs";

function Page() {
  const [first = "", second = ""] = path.value;
  switch (first) {
    case "":
      return (
        <Shell title="Overview">
          <OverviewPage />
        </Shell>
      );
    case "queue":
      return (
        <Shell title="Queue">
          <QueuePage />
        </Shell>
      );
    case "jobs":
      return second ? (
        <Shell title={`Job ${second}`}>
          <JobPage key={second} id={second} />
        </Shell>
      ) : (
        <Shell title="Jobs">
          <JobsPage />
        </Shell>
      );
    case "gpus":
      return (
        <Shell title="GPUs">
          <GpusPage />
        </Shell>
      );
    case "nodes":
      return second ? (
        <Shell title={`Node ${second}`}>
          <NodePage key={second} name={second} />
        </Shell>
      ) : (
        <Shell title="Nodes">
          <NodesPage />
        </Shell>
      );
    case "clusters":
      return (
        <Shell title={second ? `Cluster ${second}` : "Clusters"}>
          <ClustersPage key={second} name={second} />
        </Shell>
      );
    case "what-if":
      return (
        <Shell title="What if">
          <WhatIfPage />
        </Shell>
      );
    case "sla":
      return (
        <Shell title="SLA">
          <SlaPage />
        </Shell>
      );
    case "cost":
      return (
        <Shell title="Cost">
          <CostPage />
        </Shell>
      );
    case "history":
      return (
        <Shell title="History">
          <HistoryPage />
        </Shell>
      );
    case "health":
      return (
        <Shell title="Health">
          <HealthPage />
        </Shell>
      );
    case "insights":
      return (
        <Shell title="Insights">
          <InsightsPage />
        </Shell>
      );
    case "reports":
      return (
        <Shell title="Reports">
          <ReportsPage />
        </Shell>
      );
    case "alerts":
      return (
        <Shell title="Alerts">
          <AlertsPage />
        </Shell>
      );
    case "api":
      return (
        <Shell title="API">
          <ReferencePage />
        </Shell>
      );
    case "audit":
      return (
        <Shell title="Audit">
          <AuditPage />
        </Shell>
      );
    default:
      return (
        <Shell title="No such page">
          <h1>No such page</h1>
          <Empty title={`There is nothing at ${first}.`}>
            <a href={href("/")}>Overview</a>
          </Empty>
        </Shell>
      );
  }
}

function App() {
  const now = session.value;
  acting.tenant = params.value.get("tenant") ?? "";
  if (now.state === "asking")
    return (
      <main class="login">
        <Skeleton />
      </main>
    );
  if (now.state === "out") return <LoginPage />;
  return <Page key={acting.tenant} />;
}

const root = document.getElementById("app");
if (root) {
  followLinks(root);
  listenForKeys();
  render(<App />, root);
  void begin().then(startLive);
}
