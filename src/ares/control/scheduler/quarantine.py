"""Quarantine: a node that is lost and comes back again and again gets no new jobs for a while, longer each time.

Leader only. The quarantine is a taint of the node's record, so that every replica and every person sees it, and an
operator can end it. What a new leader does not know is how often it was: it begins with the shortest pause.
"""

from collections import deque

import msgspec
import structlog

from ares.control.governance.alerts import Alerts
from ares.control.scheduler.monitor import ready
from ares.control.state.view import View
from ares.core import keys
from ares.model.node import NodeRecord, Taint
from ares.ports.clock import Clock
from ares.ports.store import Committed, Compare, Put, Store, StoreError

log = structlog.get_logger()

KEY = "ares-flapping"
# So many losses of work within the time lead to a quarantine.
LOSSES = 3
WITHIN_S = 600.0
PAUSE_FIRST_S = 30.0
PAUSE_LAST_S = 1800.0
# After so long without a quarantine the next is as short as the first.
_CALM_S = 3600.0
_LOOK_EVERY_S = 1.0


class Quarantine:
    def __init__(self, store: Store, view: View, clock: Clock, alerts: Alerts) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._alerts = alerts
        self._losses: dict[str, deque[float]] = {}
        # How often, and when the last one ended or will end, by the monotonic clock.
        self._served: dict[str, tuple[int, float]] = {}

    def note(self, node: str) -> None:
        """Work was lost with the node."""
        self._losses.setdefault(node, deque(maxlen=LOSSES)).append(self._clock.monotonic())

    async def run(self) -> None:
        self._losses.clear()
        self._served.clear()
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            try:
                await self.look()
            except StoreError as error:
                log.warning("quarantine.delayed", error=str(error))

    async def look(self) -> None:
        now, wall = self._clock.monotonic(), self._clock.wall()
        for node, losses in list(self._losses.items()):
            if len(losses) == LOSSES and now - losses[0] <= WITHIN_S and node in self._view.nodes:
                del self._losses[node]
                await self._begin(node, now, wall)
        for node, record in [(node, record) for node, record in self._view.nodes.items() if record.taints]:
            taint = next((taint for taint in record.taints if taint.key == KEY), None)
            if taint is not None and wall >= _until(taint):
                await self._set(node, None)
                log.info("node.quarantine_over", node=node)

    async def _begin(self, node: str, now: float, wall: float) -> None:
        times, ended = self._served.get(node, (0, now))
        times = 0 if now - ended > _CALM_S else times
        pause_s = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2.0**times)
        self._served[node] = (min(times + 1, 10), now + pause_s)
        # With few other nodes left it is the last choice, but not excluded.
        effect = "no-schedule" if self._spare(node) else "prefer-not"
        if not await self._set(node, Taint(key=KEY, value=str(int(wall + pause_s)), effect=effect)):
            return
        text = (
            f"node {node} lost its work {LOSSES} times within {WITHIN_S / 60:.0f} minutes: it gets "
            f"{'nothing new' if effect == 'no-schedule' else 'only what fits nowhere else'} for {pause_s:.0f} s; look "
            f"at its machine and network (`ares node show {node}`), or end this: `ares node untaint {node} {KEY}`"
        )
        await self._alerts.raise_("node-flapping", "", f"nodes/{node}", text, {"pauseS": pause_s})

    def _spare(self, node: str) -> bool:
        """Whether most of the others are ready and not in quarantine, and there are two at least."""
        others = [name for name in self._view.nodes if name != node]
        sound = [
            name
            for name in others
            if ready(self._view, name) and not any(taint.key == KEY for taint in self._view.nodes[name].taints)
        ]
        return len(sound) >= 2 and 2 * len(sound) > len(others)

    async def _set(self, node: str, taint: Taint | None) -> bool:
        """False when the record was changed meanwhile: the next look tries again, or finds nothing to do."""
        kv = await self._store.get(keys.node(node))
        if kv is None:
            return False
        record = msgspec.json.decode(kv.value, type=NodeRecord)
        taints = (*(other for other in record.taints if other.key != KEY), *(() if taint is None else (taint,)))
        changed = msgspec.structs.replace(record, taints=taints)
        guard = Compare(keys.node(node), "mod_revision", kv.mod_revision)
        written = await self._store.txn([guard], [Put(keys.node(node), msgspec.json.encode(changed))])
        return isinstance(written, Committed) and written.succeeded


def _until(taint: Taint) -> float:
    return float(taint.value) if taint.value.isdigit() else 0.0
