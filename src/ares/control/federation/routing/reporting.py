"""A cluster's reports to its global plane: numbered, with the round trip of the link and when jobs would start here."""

from collections.abc import Iterator

from msgspec.structs import replace

from ares.api.pools import Shape
from ares.control.federation.routing.capacity import kinds_of, report_of
from ares.control.scheduler.cluster_view import LiveCluster, unsubmitted
from ares.control.state.pacing import stepped
from ares.control.state.view import View
from ares.core.forecast.eta import LONGEST_S, Wait
from ares.core.routing.options import Kind
from ares.core.schedule.cluster import Cluster
from ares.core.starts.shapes import shape_etas
from ares.core.starts.starts import SOON_S
from ares.core.steps import Steps, in_steps
from ares.model.access import Principal
from ares.model.job import Resources
from ares.model.state import JobState
from ares.model.uplink import ClusterReport, ReportedEta, UplinkRecord
from ares.ports.clock import Clock

# After a look at starts there is none for so many times as long as it took: the same loop serves requests.
_PAUSES = 20.0
# Kinds of machines that starts are told of, the most numerous first, and of jobs that run so long: the shorter ones
# fill gaps before the others.
_KINDS_MAX = 8
RUNS_S = (600.0, 3600.0, 14_400.0, 86_400.0)
# Reports that are on their way, or were lost with their stream.
_OPEN_MAX = 100
_ANYBODY = Principal(token_id="", tenant="", role="submitter")


class ClusterReporter:
    def __init__(self, live: LiveCluster, view: View, clock: Clock) -> None:
        self._live, self._view, self._clock = live, view, clock
        self._seq = 0
        self._rtt_ms = 0
        # When each report was sent that is not answered yet, by its number.
        self._sent: dict[int, float] = {}
        self._etas: dict[Kind, tuple[ReportedEta, ...]] = {}
        self._next_look = float("-inf")
        # When the newest report was sent that the global plane has kept, by the monotonic clock.
        self.renewed_at = float("-inf")

    def begin(self) -> None:
        """Numbers begin anew with every stream: its incarnation is a new one."""
        self._seq, self._sent = 0, {}

    async def next(self, record: UplinkRecord) -> ClusterReport:
        await self._look()
        self._seq += 1
        self._sent[self._seq] = self._clock.monotonic()
        while len(self._sent) > _OPEN_MAX:
            del self._sent[next(iter(self._sent))]
        return report_of(
            self._live, self._view, record.name, record.incarnation, self._seq, rtt_ms=self._rtt_ms, etas=self._etas
        )

    def answered(self, nonce: int, *, kept: bool) -> None:
        """The global plane has heard this report, and may have kept it."""
        sent = self._sent.pop(nonce, None)
        if sent is not None:
            self._rtt_ms = round(1000 * max(0.0, self._clock.monotonic() - sent))
            self.renewed_at = max(self.renewed_at, sent if kept else self.renewed_at)

    # ---- when jobs would start

    async def _look(self) -> None:
        """Only while jobs wait: without them what is free is all that counts."""
        began = self._clock.monotonic()
        if not len(self._live.cluster.waiting):
            self._etas = {}
        if not len(self._live.cluster.waiting) or began < self._next_look:
            return
        self._live.refresh_ready()
        kinds = sorted(kinds_of(self._live, self._view).items(), key=lambda found: (-len(found[1]), found[0]))
        etas: dict[Kind, tuple[ReportedEta, ...]] = {}
        for kind, nodes in kinds[:_KINDS_MAX]:
            now = self._clock.wall()
            steps = size_etas.steps(self._live.cluster, unsubmitted(_ANYBODY, now), kind, len(nodes), now)
            etas[kind] = tuple(self._surely(eta) for eta in await stepped(steps))
        self._etas = etas
        self._next_look = self._clock.monotonic() + _PAUSES * (self._clock.monotonic() - began)

    def _surely(self, eta: ReportedEta) -> ReportedEta:
        """In four of five cases, by how starts turned out here."""
        if not 0 < eta.eta80_s < LONGEST_S:
            return eta
        return replace(eta, eta80_s=min(LONGEST_S, self._live.etas.interval(Wait(eta.eta80_s, 1.0))[1]))


@in_steps
def size_etas(cluster: Cluster, state: JobState, kind: Kind, nodes: int, now: float) -> Steps[list[ReportedEta]]:
    """When jobs of several sizes and lengths would start on this kind of machine, if they were submitted now, as
    `state`. A start that is not known is as late as one can be."""
    found: list[ReportedEta] = []
    shapes = tuple(sizes(kind, nodes))
    for run_s in RUNS_S:
        for size in (yield from shape_etas.steps(cluster, state, kind[4], shapes, run_s, now)):
            wants, latest = size.shape.resources, None if size.starts is None else size.starts.latest
            wait_s = LONGEST_S if latest is None else min(LONGEST_S, max(0.0, latest - now))
            # A start at once comes with the next cycle.
            eta80_s = 0.0 if wait_s <= SOON_S else wait_s
            found.append(
                ReportedEta(
                    cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib, gpus=wants.gpus, ranks=size.shape.ranks,
                    run_s=run_s, eta80_s=eta80_s,
                )
            )  # fmt: skip
    return found


def sizes(kind: Kind, nodes: int) -> Iterator[Shape]:
    """A unit, parts and the whole of a machine, a quarter of them and all."""
    cpu_milli, memory_mib, gpus, *_ = kind
    units = gpus or max(1, cpu_milli // 1000)
    for taken in dict.fromkeys((1, *(max(1, units // part) for part in (16, 8, 4, 2)), units)):
        yield Shape(words="", resources=_part(kind, taken, units))
    for ranks in dict.fromkeys((-(-nodes // 4), nodes)):
        if ranks > 1:
            whole = Resources(cpu_milli=max(1, cpu_milli), memory_mib=max(1, memory_mib), gpus=gpus)
            yield Shape(words="", resources=whole, ranks=ranks)


def _part(kind: Kind, taken: int, units: int) -> Resources:
    cpu_milli, memory_mib, gpus, *_ = kind
    return Resources(
        cpu_milli=max(1, cpu_milli * taken // units), memory_mib=max(1, memory_mib * taken // units),
        gpus=taken if gpus else 0,
    )  # fmt: skip
