"""Records of jobs as objects: what this process wrote is not decoded, and like specifications share one object."""

import msgspec
import pytest

from ares.control.state import decoded as module
from ares.control.state.decoded import DecodedJobs
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context
from ares.model.job import JobSpec, Resources
from ares.model.state import JobState

encode = msgspec.json.Encoder().encode
SPEC = JobSpec(command=("true",), labels={"a": "b"}, resources=Resources(gpus=2), time_limit_s=60.0)


def new_job() -> JobState:
    return begin(
        id="0123456789abcdef", tenant="acme", spec=SPEC, name="train", submitted_by="ann", trace="0" * 55,
        context=Context(now=1.8e9, jitter=0.0, epoch=1), request_id="r1",
    ).state  # fmt: skip


def test_state_that_was_written_comes_back_as_the_object_it_was_made_from() -> None:
    decoded, state = DecodedJobs(), new_job()
    raw = encode(state)
    decoded.expect(state, raw, SPEC, encode(SPEC), "any")
    assert decoded.state(bytes(bytearray(raw))) is state
    again = decoded.state(raw)
    assert again is not state
    assert again == state


def test_like_specifications_share_one_object_and_go_by_their_tenant() -> None:
    decoded, raw = DecodedJobs(), encode(SPEC)
    decoded.expect(new_job(), b"1", SPEC, raw, "any")
    decoded.expect(new_job(), b"2", msgspec.structs.replace(SPEC), bytes(bytearray(raw)), "any")
    assert decoded.spec(raw, "any") is SPEC
    assert decoded.spec(raw, "sandbox").isolation == "sandbox"
    assert DecodedJobs().spec(raw, "any") == SPEC


def test_states_that_are_never_written_do_not_pile_up() -> None:
    decoded, state = DecodedJobs(), new_job()
    for number in range(20_000):
        decoded.expect(state, str(number).encode(), SPEC, b"{}", "any")
    assert len(decoded._expected) <= 8192  # pyright: ignore[reportPrivateUsage]


def test_state_of_a_change_is_expected_until_the_view_has_it() -> None:
    decoded, state = DecodedJobs(), new_job()
    raw = encode(state)
    decoded.expect_state(state, raw)
    assert decoded.state(raw) is state
    decoded.expect_state(state, raw)
    decoded.expect_no_more(raw)
    assert decoded.state(raw) is not state


def test_specifications_that_say_much_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [encode(msgspec.structs.replace(SPEC, name=f"job-{number}")) for number in range(3)]
    monkeypatch.setattr(module, "_SPECS_BYTES_MAX", 2 * len(raws[0]))
    decoded = DecodedJobs()
    for raw in raws:
        assert decoded.spec(raw, "any") == msgspec.json.decode(raw, type=JobSpec)
    assert list(decoded.specs) == [(raws[2], "any")]
