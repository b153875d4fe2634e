"""Routes of a federation: its clusters, at the global plane; and in a cluster the link to it."""

from ares.api.nodes import DeadBody, MemberList, MemberView, UplinkBody, UplinkView
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers import federation
from ares.edge.rest.handlers.federation import LeaveQuery
from ares.edge.rest.http.operation import Body, Operation

FEDERATION_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listMembers", "GET", "/federation/clusters", "nodes:read", "Clusters of this global plane.",
        federation.list_members, {200: (JSON, MemberList)}, NoQuery, tag="federation",
    ),
    Operation(
        "getMember", "GET", "/federation/clusters/{cluster}", "nodes:read", "One cluster of this global plane.",
        federation.get_member, {200: (JSON, MemberView)}, NoQuery, tag="federation",
    ),
    Operation(
        "drainMember", "POST", "/federation/clusters/{cluster}/drain", "clusters:admin",
        "Offer a cluster nothing more, and take back what has not begun there. It has left when it is empty.",
        federation.drain_member, {200: (JSON, MemberView)}, NoQuery, Body(ReasonBody, required=False),
        ("not-allowed",), tag="federation",
    ),
    Operation(
        "resumeMember", "POST", "/federation/clusters/{cluster}/resume", "clusters:admin",
        "Offer jobs to a drained cluster again.", federation.resume_member, {200: (JSON, MemberView)}, NoQuery, None,
        ("not-allowed",), tag="federation",
    ),
    Operation(
        "declareDead", "POST", "/federation/clusters/{cluster}/declare-dead", "clusters:admin",
        "Say that a cluster will not come back: its jobs are placed anew, and its certificate is good for nothing.",
        federation.declare_dead, {200: (JSON, MemberView)}, NoQuery, Body(DeadBody), ("not-allowed",),
        tag="federation",
    ),
    Operation(
        "getUplink", "GET", "/federation/uplink", "nodes:read", "The global plane that this cluster belongs to.",
        federation.get_uplink, {200: (JSON, UplinkView)}, NoQuery, problems=("not-found",), tag="federation",
    ),
    Operation(
        "joinGlobalPlane", "POST", "/federation/uplink", "clusters:admin",
        "Make this control plane a cluster of a global plane, by a join token.", federation.join_global_plane,
        {200: (JSON, UplinkView)}, NoQuery, Body(UplinkBody), ("not-allowed", "secrets-key"), tag="federation",
    ),
    Operation(
        "leaveGlobalPlane", "DELETE", "/federation/uplink", "clusters:admin",
        "Be a cluster of its own again. What runs here goes on.", federation.leave_global_plane,
        {200: (JSON, UplinkView)}, LeaveQuery, None, ("not-allowed", "not-found"), tag="federation",
    ),
)  # fmt: skip
