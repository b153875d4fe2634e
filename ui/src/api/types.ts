// The API's records by name, as the server writes them: whole, without left-out fields.
import type { components } from "./schema";

type Whole<T> = T extends (infer U)[]
  ? Whole<U>[]
  : T extends object
    ? { [K in keyof T]-?: Whole<Exclude<T[K], undefined>> }
    : T;
type Schemas = components["schemas"];

export type Overview = Whole<Schemas["Overview"]>;
export type JobState = Whole<Schemas["JobState"]>;
export type JobPage = Whole<Schemas["JobPage"]>;
export type JobDetail = Whole<Schemas["JobDetail"]>;
export type Waiting = Whole<Schemas["Waiting"]>;
export type Eta = Whole<Schemas["Eta"]>;
export type Explanation = Whole<Schemas["Explanation"]>;
export type LedgerEvent = Whole<Schemas["LedgerEvent"]>;
export type NodeView = Whole<Schemas["NodeView"]>;
export type GpuMap = Whole<Schemas["GpuMap"]>;
export type PlanAnswer = Whole<Schemas["PlanAnswer"]>;
export type PoolView = Whole<Schemas["PoolView"]>;
export type PrioRow = Whole<Schemas["PrioRow"]>;
export type AlertRecord = Whole<Schemas["AlertRecord"]>;
export type WhoAmI = Whole<Schemas["WhoAmI"]>;
export type OutputList = Whole<Schemas["OutputList"]>;
export type ReplayAnswer = Whole<Schemas["ReplayAnswer"]>;
export type JobSpec = Whole<Schemas["JobSpec"]>;
export type AuditPage = Whole<Schemas["AuditPage"]>;
export type Phase = JobState["phase"];
export type JobTrace = Whole<Schemas["JobTrace"]>;
export type TraceSpan = Whole<Schemas["TraceSpan"]>;
export type SeriesAnswer = Whole<Schemas["SeriesAnswer"]>;
export type PlatformStatus = Whole<Schemas["PlatformStatus"]>;
export type SlaView = Whole<Schemas["SlaView"]>;
export type SlaList = Whole<Schemas["SlaList"]>;
export type ClusterAge = Whole<Schemas["ClusterAge"]>;
export type CostReport = Whole<Schemas["CostReport"]>;
export type CostRow = Whole<Schemas["CostRow"]>;
export type BudgetProjection = Whole<Schemas["BudgetProjection"]>;
export type MemberView = Whole<Schemas["MemberView"]>;
export type UplinkView = Whole<Schemas["UplinkView"]>;
export type InsightList = Whole<Schemas["InsightList"]>;
export type InsightRecord = Whole<Schemas["InsightRecord"]>;
export type DemandView = Whole<Schemas["DemandView"]>;
