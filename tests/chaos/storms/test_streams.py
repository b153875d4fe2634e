"""Event streams by the hundred that lose their server at once, and all resume at once."""

from collections import Counter
from collections.abc import Callable

import pytest

from ares.edge.client.aio import AsyncClient
from ares.model.job import JobSpec, Resources
from tests.chaos.storms.crowd import STUBBORN, Crowd
from tests.chaos.storms.gauges import held, store_calls
from tests.platform import Platform, StoreKind, eventually, say

Build = Callable[[StoreKind], Platform]
STREAMS_PER_TOKEN = 100
# Asked for on top of what one token may have.
TOO_MANY = 20
NOTHING = JobSpec(command=("true",), resources=Resources(cpu_milli=100, memory_mib=32))


class Followers(Crowd):
    """Clients that follow every event, for ever, and remember which job they saw submitted, and how often."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token, 0, NOTHING, retry=STUBBORN)
        self.seen: list[Counter[str]] = []

    async def follow(self) -> None:
        seen: Counter[str] = Counter()
        self.seen.append(seen)
        client: AsyncClient = self.client()
        try:
            async for item in client.events("0"):
                if item.event.kind == "submitted":
                    seen[item.event.job] += 1
        finally:
            await client.close()


@pytest.mark.etcd
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_all_streams_resume_at_once(build: Build) -> None:
    platform = build("etcd")
    assert platform.etcd is not None
    platform.server()
    admin = platform.client()
    tokens = [platform.admin_token, *(admin.create_token(tenant="default", name=f"t{n}").token for n in range(2))]
    groups = [Followers(platform.servers[0].url, token) for token in tokens]
    first = [job.id for job in (admin.submit(NOTHING) for _ in range(20))]
    tasks = []
    for group in groups:
        group.start()
        tasks += [group.run(group.follow()) for _ in range(STREAMS_PER_TOKEN + (TOO_MANY if group is groups[0] else 0))]

    def complete(jobs: list[str]) -> bool:
        whole = [sum(all(seen[job] for job in jobs) for seen in group.seen) for group in groups]
        say(f"streams with all of {len(jobs)} events: {whole}")
        # Who found no room at first may take the place of one that was away for a moment.
        return all(count >= STREAMS_PER_TOKEN for count in whole)

    eventually(lambda: complete(first), "the first events on every stream", 120)
    calm = held(platform.servers[0].pid)
    platform.servers[0].kill()
    for group in groups:
        group.mark()
    platform.server()
    calls = store_calls(platform.etcd)
    second = [job.id for job in (platform.client().submit(NOTHING) for _ in range(20))]
    eventually(lambda: complete([*first, *second]), "all events on every stream", 120)
    now, streams = held(platform.servers[0].pid), STREAMS_PER_TOKEN * len(groups)
    opened = sum(group.tally.statuses[200] for group in groups)
    full = sum(group.tally.statuses[429] for group in groups)
    spent = store_calls(platform.etcd) - calls
    say(f"{streams} streams: opened {opened} times, {full} times full, {spent} store calls; memory {calm} -> {now}")
    for task in tasks:
        task.cancel()
    for group in groups:
        group.stop(60)
    twice = [job for group in groups for seen in group.seen for job, times in seen.items() if times > 1]
    assert not twice, f"{len(twice)} events came twice on one stream"
    assert opened <= 1.2 * streams, f"{opened} streams opened for {streams}"
    assert groups[0].tally.statuses[429] or full, "nobody was turned away: the limit was not met"
    assert not any(group.curt for group in groups), groups[0].curt[:1]
    assert spent <= 4 * streams + 200, f"{spent} calls to the store to resume {streams} streams"
    assert now.rss - calm.rss < 96, f"the server grew: {calm} -> {now}"
