"""A tenant's rate on real processes: its outputs come at that pace, are shown on their way, and all arrive."""

import json
from typing import Any

from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually

SIZE = 5_000_000
MAKES = f'head -c {SIZE} /dev/urandom > "$ARES_OUTPUT_DIR/big"'


def test_outputs_of_a_limited_tenant_wait_their_turn_and_are_shown(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    refused = platform.cli("quota", "set", "default", "transfer=0")
    assert refused.code == 1
    assert "transfer needs a hard limit of at least 0.01 MB/s" in refused.err
    assert platform.cli("quota", "set", "default", "transfer=1").code == 0
    job = client.submit(
        JobSpec(
            command=("sh", "-c", MAKES), resources=Resources(cpu_milli=500, memory_mib=64), retry=RetryPolicy(limit=0)
        )
    )

    def seen() -> list[dict[str, Any]]:
        shown = platform.cli("data", "top", "-o", "json")
        assert shown.code == 0, shown.err
        # The lease that follows the first demand is nearly the whole rate.
        return [row for row in json.loads(shown.out)["transfers"] if row["bytesPerS"] > 0]

    (row, *_) = eventually(seen, "the output on its way")
    assert (row["node"], row["tenant"], row["kind"]) == ("node-a", "default", "output")
    assert row["tenantBytesPerS"] == 1_000_000
    table = platform.cli("data", "top", "--once").out
    assert "OF TENANT" in table
    assert "1.0 MB/s" in table
    quota = {use.measure: use for use in client.quota().uses}
    assert quota["transfer"].limit == 1.0
    ended = client.wait(job, timeout=100)
    assert ended.state.phase == "SUCCEEDED", ended.state.reason
    assert [file.size for file in client.outputs(ended).files] == [SIZE]
    empty = platform.cli("data", "top", "--once")
    assert empty.code == 0
