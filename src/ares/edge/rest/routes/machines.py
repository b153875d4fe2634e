"""Routes about machines' identities."""

from ares.api.identity import Revoked
from ares.control.access.machines import Admitted
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import machine_identities
from ares.edge.rest.handlers.machine_identities import CertificateList, JoinBody
from ares.edge.rest.http.operation import Body, Operation

MACHINE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "joinMachine", "POST", "/join", "machines:join", "Trade a join token for a machine's certificate.",
        machine_identities.join, {200: (JSON, Admitted)}, NoQuery, Body(JoinBody), ("no-authority",), tag="nodes",
    ),
    Operation(
        "listCertificates", "GET", "/certificates", "nodes:admit", "Machines' certificates, by machine.",
        machine_identities.list_certificates, {200: (JSON, CertificateList)}, NoQuery, tag="nodes",
    ),
    Operation(
        "revokeNode", "POST", "/nodes/{name}/revoke", "nodes:admit",
        "Take back all that a node proves itself by. Its stream is cut, and its jobs are taken away.",
        machine_identities.revoke_node, {200: (JSON, Revoked)}, NoQuery, tag="nodes",
    ),
    Operation(
        "revokeCluster", "POST", "/clusters/{name}/revoke", "clusters:admin",
        "Take back all that a cluster proves itself by.", machine_identities.revoke_cluster,
        {200: (JSON, Revoked)}, NoQuery,
        tag="nodes",
    ),
)  # fmt: skip
