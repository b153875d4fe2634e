"""Which operations of the API are methods of the gRPC service. Their messages are made from the same records."""

from typing import Final

# Of the packages `ares.v1`: operations of each service. A method is called like its operation, with a capital letter.
SERVICES: Final[dict[str, tuple[str, ...]]] = {
    "JobService": ("submitJob", "getJob", "listJobs", "cancelJob", "retryJob", "holdJob", "releaseJob", "explainJob"),
    "EventService": ("listJobEvents", "streamEvents"),
    "LogService": ("searchJobLogs", "streamJobLogs"),
    "NodeService": ("listNodes", "getNode", "listClusters", "getCluster"),
    "FederationService": ("listMembers", "getMember", "drainMember", "resumeMember", "declareDead", "getUplink"),
}
PACKAGE: Final = "ares.v1"


def method_of(operation: str) -> str:
    return operation[0].upper() + operation[1:]
