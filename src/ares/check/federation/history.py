"""The vocabulary of a federation's history: what was written, started, ended and broken, in the order it happened."""

import hashlib
from collections.abc import Iterable

import msgspec


class _FederationEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    t: float


class FederationSettings(_FederationEvent, frozen=True, tag="settings"):
    """The bounds that promises are judged by. `quota`: units of each tenant that may be admitted at once."""

    seed: int = 0
    quota: dict[str, int] = {}
    # Within these a held job is offered, a local job is known globally, and every job ends, once all is mended.
    offer_s: float = 60.0
    import_s: float = 60.0


class JobSubmitted(_FederationEvent, frozen=True, tag="submitted"):
    """Acknowledged. `place`: the cluster for a local job, empty for the global plane."""

    job: str
    tenant: str
    place: str = ""
    residency: tuple[str, ...] = ()
    may_move: bool = False


class OwnerWritten(_FederationEvent, frozen=True, tag="owner"):
    """A revision of the global plane's store."""

    revision: int
    job: str
    cluster: str = ""
    epoch: int = 0
    stage: str = "HELD"


class PossessionWritten(_FederationEvent, frozen=True, tag="possession"):
    """In a cluster's store. `epoch` 0: nothing is taken."""

    cluster: str
    job: str
    epoch: int = 0
    stage: str = ""
    refused: int = 0


class ClusterWritten(_FederationEvent, frozen=True, tag="cluster"):
    revision: int
    cluster: str
    state: str
    code: str
    generation: int = 1
    region: str = ""


class RunBegan(_FederationEvent, frozen=True, tag="began"):
    """A process of a job really runs in a cluster."""

    cluster: str
    job: str
    epoch: int


class RunOver(_FederationEvent, frozen=True, tag="over"):
    cluster: str
    job: str
    epoch: int


class OutcomeWritten(_FederationEvent, frozen=True, tag="outcome"):
    """The end of a job in the global plane's store. `epoch` 0: by the global plane itself."""

    revision: int
    job: str
    outcome: str
    cluster: str = ""
    epoch: int = 0


class LocalOver(_FederationEvent, frozen=True, tag="local-over"):
    """The end of a local job in its cluster's store: from here on it spends nothing of the allowance."""

    cluster: str
    job: str


class CancelAsked(_FederationEvent, frozen=True, tag="cancel"):
    """Acknowledged by the global plane."""

    job: str


class ReportHeard(_FederationEvent, frozen=True, tag="report"):
    """A report arrived, and afterwards this one is kept."""

    cluster: str
    generation: int
    incarnation: int
    seq: int
    kept: tuple[int, int] = (0, 0)


class RouteWritten(_FederationEvent, frozen=True, tag="route"):
    """A decision as it was kept: by cluster its terms and its score."""

    job: str
    chosen: str
    terms: dict[str, dict[str, float]]
    scores: dict[str, float]
    weights: dict[str, float]


class StoreRestored(_FederationEvent, frozen=True, tag="restored"):
    """Of a cluster, or without a name of the global plane. `revision`: up to which its store is as it was."""

    cluster: str = ""
    revision: int = 0


class HealRepeated(_FederationEvent, frozen=True, tag="reheal"):
    """The same listing was healed a second time: a digest of all owners before and after that."""

    cluster: str
    before: str
    after: str


class FederationFault(_FederationEvent, frozen=True, tag="fault"):
    what: str
    cluster: str = ""


class AllMended(_FederationEvent, frozen=True, tag="mended"):
    """From here on nothing breaks any more."""


class WorldOver(_FederationEvent, frozen=True, tag="world-over"):
    """The end of the history."""


Happening = (
    FederationSettings | JobSubmitted | OwnerWritten | PossessionWritten | ClusterWritten | RunBegan | RunOver
    | OutcomeWritten | LocalOver | CancelAsked | ReportHeard | RouteWritten | StoreRestored | HealRepeated
    | FederationFault | AllMended | WorldOver
)  # fmt: skip


def encode(events: Iterable[Happening]) -> bytes:
    """JSON lines."""
    return msgspec.json.Encoder().encode_lines(list(events))


def digest(events: Iterable[Happening]) -> str:
    return hashlib.sha256(encode(events)).hexdigest()
