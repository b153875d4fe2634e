"""Hostile requests against a real server process: no 5xx, no hang, no growth, and everything in order afterwards."""

import asyncio
import json
import os
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.platform import Platform, say
from tests.security.fuzz.attacking import attack
from tests.security.fuzz.hostile import Hostile

REQUESTS = int(os.environ.get("ARES_FUZZ_REQUESTS", "2000"))
SEED = int(os.environ.get("ARES_FUZZ_SEED", "6"))
LINES = 16
ROUNDS = 5
# Records that requests make are kept, and so are pages that the allocator does not give back.
GROWTH_MIB, GROWTH_KIB_PER_RECORD = 64, 12
# Wide: here the handlers are under attack, not the limits before them.
WIDE = {
    f"ARES_LIMITS__{name.upper()}": "10000000"
    for name in (
        "failures_per_s", "failures_burst", "anonymous_per_s", "anonymous_burst", "refusals_per_s", "refusals_burst",
        "tenant_requests_per_s", "principal_requests_per_s", "jobs_per_s",
    )
}  # fmt: skip


@pytest.mark.timeout(7200)
def test_hostile_requests(tmp_path: Path) -> None:
    """N36 and every N about input, by the thousand. `make fuzz REQUESTS=100000` is the same with more."""
    with Platform(tmp_path) as platform:
        server = platform.server(env=WIDE)
        with urllib.request.urlopen(f"{server.url}/v1/openapi.json", timeout=30) as answer:
            document = json.load(answer)
        submitter = platform.client().create_token(role="submitter", name="fuzz")
        hostile = Hostile(document, [platform.admin_token] * 3 + [submitter.token], SEED)
        port = int(server.http.rpartition(":")[2])
        rss: list[int] = []
        made, broken = 0, list[str]()
        for number in range(ROUNDS):
            found = asyncio.run(attack(port, hostile, REQUESTS // ROUNDS, LINES))
            made, broken = made + found.made, broken + found.broken
            rss.append(psutil.Process(server.pid).memory_info().rss >> 20)
            say(
                f"fuzz: {(number + 1) * (REQUESTS // ROUNDS):,} sent, RSS {rss[-1]} MiB, {made:,} accepted writes, "
                f"slowest {found.slowest_s:.2f} s ({found.slowest[:80]}), {dict(sorted(found.statuses.items()))}"
            )
        assert not broken, f"{len(broken)} of {REQUESTS} with seed {SEED}:\n" + "\n".join(broken[:20])
        allowed = GROWTH_MIB + made * GROWTH_KIB_PER_RECORD // 1024
        assert rss[-1] - rss[0] <= allowed, f"RSS after each round: {rss} MiB; {made} records were made"
        assert server.alive
        assert server.checks()
        # It had its rights to the end: what was refused was not refused for that.
        assert platform.client().whoami()
        copy = tmp_path / "copy.db"
        backup = platform.cli("store", "backup", str(copy))
        assert backup.code == 0, backup
        verified = platform.cli("verify", "--store", f"sqlite://{copy}")
        assert verified.code == 0, verified
