"""A result that one part can read and another cannot write would be reported for ever and never kept."""

import msgspec
import pytest

from ares.core.lifecycle.outputs import NESTED_MAX, decode_result
from tests.world import World


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_a_result_within_the_limit_is_kept_as_it_is() -> None:
    value = decode_result(nested(NESTED_MAX - 1))
    assert msgspec.json.encode(value) == nested(NESTED_MAX - 1)
    assert decode_result(b"[1, [2, {}]]") == [1, [2, {}]]


@pytest.mark.parametrize("data", [nested(NESTED_MAX), nested(900), b"[" * 60_000 + b"]" * 60_000], ids=len)
def test_a_result_nested_too_deeply_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="levels deep"):
        decode_result(data)


@pytest.mark.parametrize("levels", [NESTED_MAX, 980, 990, 995, 10_000])
async def test_a_result_nested_too_deeply_fails_its_attempt_and_harms_nobody_else(levels: int) -> None:
    async with World() as world:
        agent = await world.agent()
        deep, other = await world.submit(restart="never"), await world.submit()
        await world.settle()
        agent.send(agent.exit_report(agent.starts[deep], value=nested(levels)), agent.exit_report(agent.starts[other]))
        await world.settle()
        assert world.state(deep).phase == "FAILED"
        assert "levels deep" in world.state(deep).reason
        assert world.state(other).phase == "SUCCEEDED"
        assert len(agent.acked) == 2
