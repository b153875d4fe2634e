"""Which channels are told of a job's end, and when a notice is over."""

import pytest

from ares.core.alerts import due_notices, marked, notice_of_end, refused
from ares.model.alert import ChannelRecord
from ares.model.job import JobSpec
from ares.model.state import ExitInfo, JobState, Phase

OPS = {"acme/ops": ChannelRecord(name="ops", kind="webhook", tenant="acme", severity="critical")}


def spec(*notify: str, array: str | None = None) -> JobSpec:
    return JobSpec(command=("true",), notify=notify, array=array)


def ended(phase: Phase) -> JobState:
    return JobState(id="j1", tenant="acme", name="n", phase=phase, attempt=2, started_at=10.0, ended_at=70.0)


@pytest.mark.parametrize(
    ("wishes", "phase", "told"),
    [
        (("ops",), "SUCCEEDED", ("ops",)),
        (("ops:end",), "FAILED", ("ops",)),
        (("ops:fail",), "SUCCEEDED", ()),
        (("ops:fail",), "CANCELLED", ("ops",)),
        (("ops:success", "mail:fail"), "SUCCEEDED", ("ops",)),
        (("ops", "ops:fail"), "FAILED", ("ops",)),
    ],
)
def test_who_is_told(wishes: tuple[str, ...], phase: Phase, told: tuple[str, ...]) -> None:
    notice = notice_of_end(spec(*wishes), ended(phase), 70.0)
    assert (() if notice is None else notice.channels) == told


def test_what_is_told() -> None:
    state = ended("FAILED")
    notice = notice_of_end(spec("ops"), JobState(**{**{f: getattr(state, f) for f in state.__struct_fields__},
                                                    "exit": ExitInfo(code=3, failure="exit")}), 70.0)  # fmt: skip
    assert notice is not None
    assert (notice.delivery, notice.severity, notice.numbers) == ("j1-1", "warning", {"attempts": 2.0, "run_s": 60.0})
    assert notice.text == "job n (j1) FAILED with exit code 3"


def test_sent_again_until_it_arrived_and_then_over() -> None:
    notice = notice_of_end(spec("ops", "gone"), ended("FAILED"), 70.0)
    assert notice is not None
    assert due_notices([notice], OPS, 70.0) == ([(notice, "acme/ops")], None, [])
    tried = marked(notice, "acme/ops", 1, "503", False, 70.0)
    assert due_notices([tried], OPS, 71.0) == ([], 4.0, [])
    assert due_notices([tried], OPS, 75.0) == ([(tried, "acme/ops")], None, [])
    arrived = marked(tried, "acme/ops", 1, None, False, 75.0)
    assert due_notices([arrived], OPS, 76.0) == ([], None, [arrived])
    given_up = marked(tried, "acme/ops", 1, "404", True, 75.0)
    assert due_notices([given_up], OPS, 76.0) == ([], None, [given_up])
    assert due_notices([notice], {}, 70.0) == ([], None, [notice]), "no channel is left"


def test_wishes_that_cannot_be_met() -> None:
    assert refused("acme", spec("ops:fail"), OPS) is None
    assert refused("acme", spec(array="0-9"), {}) is None
    other, array = refused("other", spec("ops"), OPS), refused("acme", spec("ops", array="0-9"), OPS)
    assert other is not None
    assert array is not None
    assert (other.code, array.code) == ("notify-unknown", "notify-on-array")
