"""Tells people of records that were set aside."""

from ares.control.governance.alerts import Alerts
from ares.control.state.unusable_records import Aside
from ares.core import keys
from ares.ports.clock import Clock

# One that is still there is told of again.
_AGAIN_S = 3600.0


class AsideWatch:
    """Every replica runs it: the same record is the same alert."""

    def __init__(self, aside: Aside, alerts: Alerts, clock: Clock) -> None:
        self._aside = aside
        self._alerts = alerts
        self._clock = clock

    async def run(self) -> None:
        told: dict[str, float] = {}
        while True:
            await self._aside.changed.wait()
            self._aside.changed.clear()
            now = self._clock.monotonic()
            told = {key: at for key, at in told.items() if key in self._aside.records and now - at < _AGAIN_S}
            for key, why in tuple(self._aside.records.items()):
                if key not in told:
                    told[key] = now
                    await self._alerts.raise_("record-set-aside", "", key, _text(key, why), severity="critical")


def _text(key: str, why: str) -> str:
    if key.startswith(keys.NODES):
        name = key.removeprefix(keys.NODES)
        fix = f"correct what node {name} says of itself and start its agent again, or `ares node remove {name}`"
    else:
        fix = "the store may be damaged or written by another version; `ares verify` looks through all of it"
    return f"the record {key} cannot be used and is left out: {why}; {fix}"
