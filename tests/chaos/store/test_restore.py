"""A store that is turned back to a copy: what the copy knows survives, what came after it can do no harm."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ares.edge.client.calls.answers import Submitted
from ares.edge.client.errors import NotFound
from ares.edge.client.sync import Client
from ares.model.job import RetryPolicy
from tests.chaos.load import Load, marked
from tests.chaos.test_kill import DRAIN_S, drain
from tests.history import Acknowledged, judge, parse_fence, read_epoch, read_store
from tests.platform import Platform, StoreKind, eventually, run_cli, say

pytestmark = pytest.mark.chaos

NODES = ("node-a", "node-b")
FOREVER = 6000
QUICK = RetryPolicy(limit=20, base_s=0.1, max_s=0.5)
SOME = 15


@dataclass
class World:
    """A platform at work, and the copy it will be turned back to."""

    platform: Platform
    marks: Path
    seed: int

    @property
    def client(self) -> Client:
        return self.platform.client()

    def load(self) -> Load:
        clients = [self.platform.client() for _ in range(3)]
        # A cancel is a promise about a job that a restore may forget.
        return Load(clients, self.marks, self.seed, pause_s=0.3, cancels=0.0)

    def copy(self, file: Path) -> None:
        if self.platform.etcd is not None:
            self.platform.etcd.snapshot(file)
        else:
            copied = self.platform.cli("store", "backup", str(file))
            assert copied.code == 0, copied

    def turn_back(self, file: Path, *, new_epoch: bool) -> None:
        home = self.platform.servers[0].home
        if self.platform.etcd is None:
            done = run_cli("store", "restore", str(file), home=home)
            assert done.code == 0, done
            assert "epoch 2" in done.out, f"the operator is not told of the new epoch: {done}"
            return
        self.platform.etcd.restore(file)
        if new_epoch:
            url = f"store.url={self.platform.store_url}"
            # The copy holds the record of who led then, which ends by itself.
            done = eventually(lambda: _when_done(home, url), "a new epoch")
            assert "epoch 2" in done, f"the operator is not told of the new epoch: {done}"

    def cordon(self, cordoned: bool) -> None:
        for name in NODES:
            self.client.cordon(name, cordoned)

    def fences_alive(self) -> set[str]:
        return {who.split()[1] for who in self.platform.job_processes().values()}


def _when_done(home: Path, url: str) -> str:
    done = run_cli("store", "new-epoch", "--set", url, home=home)
    return done.out if done.code == 0 else ""


def begin(directory: Path, store: StoreKind, seed: int) -> World:
    marks = directory / "marks"
    marks.mkdir()
    return World(Platform(directory / "platform", store, warm=True), marks, seed)


def more(load: Load, count: int) -> None:
    wanted = len(load.acknowledged) + count
    eventually(lambda: len(load.acknowledged) >= wanted, f"{count} more acknowledged submissions")


def running(client: Client, job: Submitted, attempt: int) -> None:
    def look() -> bool:
        state = client.get(job).state
        return (state.phase, state.attempt) == ("RUNNING", attempt)

    eventually(look, f"attempt {attempt} of {job.id}")


def finish(world: World, told: Sequence[Acknowledged]) -> None:
    """Every promise holds, once what ran in the future that was taken back is set aside: nobody knows of it."""
    platform = world.platform
    drain(platform.client(), told)
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    assert read_epoch(platform.store_url) == 2
    found = read_store(platform.store_url)
    granted = {
        (job, event.fence) for job, events in found.events.items() for event, _ in events if event.kind == "bound"
    }
    forgotten = [path for path in world.marks.iterdir() if tuple(path.name.split(".", 1)) not in granted]
    assert all(parse_fence(path.name.split(".", 1)[1]).epoch == 1 for path in forgotten), forgotten
    for path in forgotten:
        path.unlink()
    seen = judge(told, found, world.marks)
    assert forgotten, "nothing ran after the copy: the restore proved nothing"
    say(f"{len(forgotten)} attempts were forgotten; history: {dict(seen)}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "store",
    [pytest.param("sqlite", marks=pytest.mark.soak), pytest.param("etcd", marks=[pytest.mark.etcd, pytest.mark.soak])],
)
def test_what_the_copy_knows_survives_and_the_rest_is_stopped(tmp_path: Path, seed: int, store: StoreKind) -> None:
    world, copy = begin(tmp_path, store, seed), tmp_path / "copy"
    with world.platform as platform:
        server = platform.server()
        for name in NODES:
            platform.agent(name)
        client, load = world.client, world.load()
        load.start()
        more(load, SOME)
        stays = client.submit(marked(world.marks, beats=FOREVER), request_id="stays")
        running(client, stays, 1)
        world.cordon(True)
        # Nothing was granted to it before the copy, two attempts after.
        again = client.submit(
            marked(world.marks, beats=FOREVER, fails=1, retry=QUICK), request_id="again"
        )  # fmt: skip
        kept = list(load.acknowledged)
        world.copy(copy)
        world.cordon(False)
        running(client, again, 2)
        future = client.submit(marked(world.marks, beats=FOREVER), request_id="future")
        running(client, future, 1)
        more(load, SOME)
        load.stop(DRAIN_S)
        held = {str(client.get(job).state.fence) for job in (again, future)}
        assert held <= world.fences_alive()

        server.kill()
        world.turn_back(copy, new_epoch=True)
        platform.server()

        # The agents are still the same: they are told to end what nobody remembers.
        after = platform.client()
        mine = {job.id for job in (again, future)}
        eventually(
            lambda: not [who for who in platform.job_processes().values() if who.split()[0] in mine and " 1." in who],
            "the end of the attempts that nobody remembers",
        )
        with pytest.raises(NotFound):
            after.get(future)
        assert after.submit(marked(world.marks, beats=FOREVER), request_id="stays").id == stays.id
        world.cordon(False)
        later = world.load()
        later.start()
        more(later, SOME)
        later.stop(DRAIN_S)
        told = [*kept, *later.acknowledged]
        running(after, again, 2)
        assert after.get(again).state.fence.epoch == 2
        for job, request in ((stays, "stays"), (again, "again")):
            after.cancel(job)
            told.append(replace(Acknowledged(request, job.id), cancelled=True))
        finish(world, told)


@pytest.mark.soak
@pytest.mark.etcd
@pytest.mark.timeout(300)
@pytest.mark.parametrize("new_epoch", [True, False])
def test_only_a_new_epoch_keeps_fences_apart(tmp_path: Path, seed: int, new_epoch: bool) -> None:
    """Machines that were started anew remember nothing: without a new epoch the same fence is given a second time."""
    world, copy = begin(tmp_path, "etcd", seed), tmp_path / "copy"
    with world.platform as platform:
        server = platform.server()
        agent = platform.agent("node-a")
        client = world.client
        client.cordon("node-a")
        job = client.submit(marked(world.marks), request_id="job")
        world.copy(copy)
        client.cordon("node-a", False)
        first = client.wait(job, timeout=60).state.fence

        agent.kill()
        server.kill()
        world.turn_back(copy, new_epoch=new_epoch)
        platform.server()
        platform.agent("node-a")
        after = platform.client()
        assert after.get(job).state.phase == "PENDING"
        after.cordon("node-a", False)
        second = after.wait(job, timeout=60).state.fence

        twice = list(world.marks.glob("twice.*"))
        if new_epoch:
            assert second > first
            assert second.epoch == 2
            assert not twice
        else:
            assert second == first, "fences do not need an epoch any more: say so in the operations page"
            assert len(twice) == 1
