"""The authorisation matrix of the threat model, written down a second time and by hand: nothing here is taken from the
table in the code, so that a mistake there does not hide itself."""

import hashlib
from typing import Any, Final, Literal, NamedTuple

# What a request is about: something of the asker's tenant, of another one, or nothing that exists.
Where = Literal["own", "other", "missing"]
WHERES: Final[tuple[Where, ...]] = ("own", "other", "missing")
PRINCIPALS: Final = (
    "anonymous", "viewer", "submitter", "tenant-admin", "auditor", "operator", "admin", "node", "cluster",
)  # fmt: skip

# One row for each group of verbs, one word for each of viewer, submitter, tenant-admin, auditor, operator and admin:
# what it gets for its own / another tenant's / a missing object. "y" is let in, "3" is 403, "4" is 404.
# Anonymous requests are always 401, machines' always 403.
_ROWS: Final = {
    # Routes about the caller alone, or about what belongs to no tenant.
    "everyone":      "y3y y3y y3y yyy yyy yyy",
    # About the caller alone: nobody acts in another's place.
    "self":          "y3y y3y y3y y3y y3y y3y",
    # Whoever comes with a join token, and nobody else.
    "join":          "333 333 333 333 333 333",
    "submit":        "333 y3y y3y 333 333 yyy",
    "steer mine":    "344 y44 y44 344 333 yy4",
    "steer others'": "344 344 y44 344 333 yy4",
    "update":        "344 y44 y44 344 yy4 yy4",
    "update all":    "333 y3y y3y 333 yyy yyy",
    "read job":      "y44 y44 y44 yy4 yy4 yy4",
    "list":          "y3y y3y y3y yyy yyy yyy",
    "enter":         "344 y44 y44 344 333 y34",
    "logs":          "y44 y44 y44 344 333 y34",
    "users":         "333 333 y44 333 333 yy4",
    "user list":     "333 333 y3y 333 333 yyy",
    "quota list":    "333 333 y3y 333 yyy yyy",
    "quota read":    "333 333 y44 333 yy4 yy4",
    "quota":         "333 333 333 333 yy4 yy4",
    "policy list":   "333 333 y3y yyy yyy yyy",
    "policy read":   "333 333 y44 yy4 yy4 yy4",
    "policy try":    "333 333 y3y 333 yyy yyy",
    "policies":      "333 333 y44 333 yy4 yy4",
    "secrets":       "333 y44 y44 333 333 yy4",
    "secret list":   "333 y3y y3y 333 333 yyy",
    "data list":     "y3y y3y y3y 333 333 yyy",
    "data read":     "y44 y44 y44 333 333 yy4",
    "data":          "333 y44 y44 333 333 yy4",
    "cron list":     "y3y y3y y3y 333 333 yyy",
    "cron read":     "y44 y44 y44 333 333 yy4",
    "crons":         "333 y44 y44 333 333 yy4",
    "tenants":       "333 333 333 333 333 yy4",
    "tenant list":   "333 333 y3y yyy yyy yyy",
    "tenant read":   "333 333 y44 yy4 yy4 yy4",
    "audit":         "333 333 y3y yyy 333 yyy",
    "alert list":    "333 333 y3y 333 yyy yyy",
    "alerts":        "333 333 y44 333 yy4 yy4",
    "nodes":         "333 333 333 333 yyy yyy",
    "platform":      "333 333 333 333 333 yyy",
}  # fmt: skip


class Cell(NamedTuple):
    own: str
    other: str
    missing: str


def cell(group: str, principal: str) -> Cell:
    if principal == "anonymous":
        return Cell("1", "1", "1")
    if principal in ("node", "cluster"):
        return Cell("3", "3", "3")
    return Cell(*_ROWS[group].split()[PRINCIPALS.index(principal) - 1])


# Which group each operation is in, and what the object in its path is. A route that is not here fails the test.
class Verb(NamedTuple):
    group: str
    names: str = ""
    body: Any = None
    query: str = ""
    # In place of a body in JSON.
    content: bytes | None = None


POLICY: Final = {"when": "job.gpus > 8", "action": "warn", "message": "many GPUs"}
# The digest of a manifest without files.
EMPTY: Final = hashlib.sha256(b'{"entries":[]}').hexdigest()
JOB: Final = {"command": ["true"], "name": "train"}
SHARED: Final = Verb("everyone")
SELF: Final = Verb("self")
THING: Final = Verb("everyone", "thing")
NODE: Final = Verb("nodes", "thing")
VERBS: Final[dict[str, Verb]] = {
    "submitJob": Verb("submit", body={"spec": JOB}),
    "submitBatch": Verb("submit", body={"jobs": [{"spec": JOB}]}),
    "shipProject": Verb("submit", body={"entries": []}),
    "shipParts": Verb("submit", content=b"\0\0\0\1x"),
    "listJobs": Verb("list"),
    "resolveJob": Verb("list", query="?prefix=abc"),
    "getJob": Verb("read job", "job"),
    "deleteJob": Verb("steer mine", "job"),
    "cancelJob": Verb("steer mine", "job"),
    "retryJob": Verb("steer mine", "job"),
    "requeueJob": Verb("steer mine", "job"),
    "updateJob": Verb("update", "job", body={"priority": "LOW"}),
    "cancelJobs": Verb("submit", body={"filter": {"name": "none-such"}}),
    "holdJobs": Verb("submit", body={"filter": {"name": "none-such"}}),
    "releaseJobs": Verb("submit", body={"filter": {"name": "none-such"}}),
    "requeueJobs": Verb("submit", body={"filter": {"name": "none-such"}}),
    "updateJobs": Verb("update all", body={"filter": {"name": "none-such"}, "update": {"priority": "LOW"}}),
    "submitFlow": Verb("submit", body={"jobs": {"a": {"command": ["true"]}}}),
    "getFlow": Verb("read job", "flow"),
    "cancelFlow": Verb("steer mine", "flow"),
    "retryFlow": Verb("steer mine", "flow"),
    "listDatasets": Verb("data list"),
    "getDataset": Verb("data read", "dataset"),
    "getDatasetManifest": Verb("data read", "dataset"),
    "getDatasetParts": Verb("data read", "dataset", body={"version": EMPTY, "parts": []}),
    "putDataset": Verb("secret list", "thing", body={"entries": []}),
    "deleteDataset": Verb("data", "dataset"),
    "listCrons": Verb("cron list"),
    "getCron": Verb("cron read", "cron"),
    "putCron": Verb("secret list", "thing", body={"schedule": "0 0 * * *", "spec": JOB}),
    "deleteCron": Verb("crons", "cron"),
    "pauseCron": Verb("crons", "cron"),
    "resumeCron": Verb("crons", "cron"),
    "holdJob": Verb("steer mine", "job"),
    "releaseJob": Verb("steer mine", "job"),
    "listJobEvents": Verb("read job", "job"),
    "explainJob": Verb("read job", "job"),
    "getJobRoute": Verb("read job", "job"),
    "getTrace": Verb("read job", "job"),
    "listPreemptions": Verb("read job", "job"),
    "planJob": Verb("list", body={"spec": JOB}),
    "listPriorities": Verb("list"),
    "listClasses": Verb("list"),
    "getUsage": Verb("list"),
    "getCost": Verb("list"),
    "listBudgets": Verb("list"),
    "listCharges": Verb("list"),
    "makeSlaReport": Verb("list", body={}),
    "makeCostReport": Verb("list", body={}),
    "makeComplianceReport": Verb("audit", body={}),
    "listLeases": Verb("list"),
    "getOverview": Verb("list"),
    "getGpus": Verb("list"),
    "getPredictions": Verb("list"),
    "predictJob": Verb("list", body={"spec": JOB}),
    "openSession": Verb("enter", "job", body={"id": "0123456789abcdef", "command": ["true"]}),
    "listSessions": Verb("enter", "job"),
    "endSession": Verb("enter", "job"),
    "attachSession": Verb("enter", "job"),
    "getJobUse": Verb("read job", "job"),
    "listUse": Verb("list"),
    "getJobLogs": Verb("logs", "job"),
    "searchJobLogs": Verb("logs", "job", query="?text=a"),
    "streamJobLogs": Verb("logs", "job"),
    "listOutputs": Verb("logs", "job"),
    "getOutput": Verb("logs", "job"),
    "listCheckpoints": Verb("logs", "job"),
    "followEvents": Verb("list"),
    "streamEvents": Verb("list"),
    "replayDecision": Verb("list", "decision", body={"weights": {}}),
    "whoAmI": SELF, "listRoles": SELF, "createOwnToken": SELF, "listOwnTokens": SELF,
    "createLoginLink": SELF, "openBrowserSession": SELF, "closeBrowserSession": SELF,
    "revokeOwnToken": Verb("self", "thing"),
    "joinMachine": Verb("join", body={"name": "n", "request": "x"}),
    "createTenant": Verb("platform", body={"name": "acme"}),
    "listTenants": Verb("tenant list"),
    "getTenant": Verb("tenant read", "tenant"),
    "updateTenant": Verb("tenants", "tenant", body={"note": "seen"}),
    "createUser": Verb("user list", body={"name": "new-user", "role": "viewer"}),
    "listUsers": Verb("user list"),
    "getUser": Verb("users", "user"),
    "updateUser": Verb("users", "user", body={"role": "viewer"}),
    "deleteUser": Verb("users", "user"),
    "getQuota": Verb("quota list"),
    "listQuotas": Verb("quota list"),
    "listTransfers": Verb("list"),
    "getTenantQuota": Verb("quota read", "tenant"),
    "putQuota": Verb("quota", "tenant", body={"quota": {}}),
    "patchQuota": Verb("quota", "tenant", body={}),
    "deleteQuota": Verb("quota", "tenant"),
    "listPolicies": Verb("policy list"),
    "checkPolicy": Verb("policy list", body=POLICY),
    "tryPolicy": Verb("policy try", body=POLICY),
    "getPolicy": Verb("policy read", "policy"),
    "listPolicyVersions": Verb("policy read", "policy"),
    "putPolicy": Verb("policy try", "thing", body=POLICY),
    "enablePolicy": Verb("policies", "policy"),
    "disablePolicy": Verb("policies", "policy"),
    "revertPolicy": Verb("policies", "policy", body={"version": 1}),
    "deletePolicy": Verb("policies", "policy"),
    "listAlerts": Verb("alert list"),
    "acknowledgeAlert": Verb("alerts", "alert"),
    "resolveAlert": Verb("alerts", "alert"),
    "listChannels": Verb("alert list"),
    "putChannel": Verb("alert list", "thing", body={}),
    "deleteChannel": Verb("alerts", "channel"),
    "testChannel": Verb("alerts", "channel"),
    "listSecrets": Verb("secret list"),
    "putSecret": Verb("secret list", "thing", body={"value": "x"}),
    "deleteSecret": Verb("secrets", "secret"),
    "rotateSecretsKey": Verb("platform"),
    "searchAudit": Verb("audit"), "exportAudit": Verb("audit"), "auditSummary": Verb("audit"),
    "listAuditHeads": Verb("audit"), "verifyAudit": Verb("audit"),
    "listCertificates": NODE, "revokeNode": NODE, "revokeCluster": NODE,
    "metrics": NODE, "getSeries": NODE, "listInsights": NODE, "getStatus": NODE,
    "judgeInsight": Verb("nodes", "thing", body={"verdict": "useful"}),
    "listMembers": SHARED, "getMember": THING, "getUplink": THING,
    "drainMember": NODE, "resumeMember": NODE, "declareDead": NODE, "joinGlobalPlane": NODE, "leaveGlobalPlane": NODE,
    "listNodes": SHARED, "listClusters": SHARED, "getProfile": SHARED,
    "listProfiles": SHARED, "listPlugins": SHARED, "listNodePools": SHARED, "listScaling": SHARED,
    "listReservations": SHARED,
    "getNode": THING, "getCluster": THING, "getDrain": THING, "getNodePool": THING, "getScaling": THING,
    "getReservation": THING,
    "planScaling": Verb("nodes"), "enableScaling": NODE, "disableScaling": NODE,
    "cordonNode": NODE, "uncordonNode": NODE, "drainNode": NODE, "undrainNode": NODE, "taintNode": NODE,
    "untaintNode": NODE, "removeNode": NODE, "consolidate": NODE, "putProfile": NODE, "patchProfile": NODE,
    "getShadow": NODE, "putShadow": NODE, "promoteShadow": NODE, "deleteShadow": NODE,
    "revertProfile": NODE, "createReservation": NODE, "extendReservation": NODE, "cancelReservation": NODE,
    "putPredictionModel": NODE, "deletePredictionModel": NODE, "createJoinToken": NODE,
    "createToken": Verb("user list", body={"role": "viewer"}),
    "listTokens": Verb("user list"),
    "revokeToken": Verb("users", "token"),
}  # fmt: skip
