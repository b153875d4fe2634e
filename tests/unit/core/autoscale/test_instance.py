"""Steps of a machine that was bought."""

import pytest

from ares.core.autoscale.instance import Known, step
from ares.model.scaling import InstanceRecord, NodeShape, ScalingPool

POOL = ScalingPool(name="gold", shape=NodeShape(cpu_milli=1000, memory_mib=512), register_s=60.0)
OLD = InstanceRecord(id="tok", pool="gold", node="gold-tok", state="ready", since=0.0)


@pytest.mark.parametrize(("silent_s", "doing"), [(0.0, "wait"), (60.0, "wait"), (61.0, "delete")])
def test_a_machine_is_gone_when_it_was_silent_for_long_and_not_when_it_is_old(silent_s: float, doing: str) -> None:
    """After an outage of the servers no agent is ready for a moment: that is no reason to give machines back."""
    known = Known(listed=True, ready=False, busy=False, idle_s=0.0, drained=False, spare=True, silent_s=silent_s)
    assert step(OLD, POOL, known, now=100_000.0).doing == doing
