"""A real cluster and a real global plane, with links that break at the worst moment."""

from ares.core import keys
from ares.core.lifecycle.inputs import Cancel
from ares.core.refusal import Refusal
from ares.model.cluster_link import AllSettled, ClusterHello, OwnedStanding
from ares.model.policy import Policy
from ares.ports.store import Put
from tests.federated_worlds import FederatedWorlds
from tests.world import ADMIN, KEEP_S, World


def _taken(there: World, job: str) -> tuple[str, bool]:
    record = there.one.view.kept.taken[job]
    return "" if record.possession.taken is None else record.possession.taken.stage, record.settled


async def test_the_end_of_what_was_cancelled_is_heard_of_while_the_stop_is_still_answered() -> None:
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running()
        await fed.plane.apply(job, Cancel(by="alice"))
        # The agent is done before the global plane has answered the first word of it.
        there.agents[0].obey()
        await fed.until(lambda: not fed.plane.state(job).lingering)
        assert fed.plane.state(job).phase == "CANCELLED"
        assert _taken(there, job) == ("", True)


async def test_word_that_nothing_is_left_survives_a_link_that_breaks_with_it() -> None:
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running()
        link = fed.links["east"]
        await fed.plane.apply(job, Cancel(by="alice"))
        await fed.until(lambda: there.state(job).phase == "CANCELLED")
        link.drops = lambda message: isinstance(message, OwnedStanding) and not message.lingering
        there.agents[0].obey()
        await fed.until(lambda: not there.state(job).lingering)
        link.cut()
        await fed.clock.advance(1.0)
        link.drops = lambda _: False
        link.mend()
        await fed.until(lambda: not fed.plane.state(job).lingering)
        assert _taken(there, job) == ("", True)


async def test_a_cancelled_job_of_a_cluster_that_lost_it_or_is_dead_lingers_no_more() -> None:
    async with FederatedWorlds("east", "west") as fed:
        (first, _), (second, _) = await fed.running(), await fed.running()
        assert {fed.owner(first), fed.owner(second)} == {"east", "west"}
        for job in (first, second):
            fed.links[fed.owner(job)].cut()
            await fed.plane.apply(job, Cancel(by="alice"))
        assert fed.plane.state(first).lingering
        # One is declared dead; what the other had is gone with its store.
        await fed.plane.one.federation.clusters.declare_dead(ADMIN, fed.owner(first), "fire")
        await fed.until(lambda: not fed.plane.state(first).lingering)
        assert fed.plane.state(second).lingering


async def test_a_job_of_one_region_runs_in_the_cluster_that_is_there() -> None:
    """Nodes that do not say where they are are where their cluster is, also those that come later."""
    async with FederatedWorlds("west", "east") as fed:
        _, there = await fed.running(residency=("east",), gpus=8)
        assert there is fed.clusters["east"]
        later = await there.agent("later", gpus=8)
        second, _ = await fed.owned(residency=("east",), gpus=8)
        await fed.until(lambda: second in later.starts)
        assert {record.info.region for record in there.one.view.nodes.values()} == {"east"}


async def test_a_cluster_that_is_refused_asks_again_ever_more_seldom() -> None:
    async with FederatedWorlds("east") as fed:
        await fed.plane.one.federation.clusters.declare_dead(ADMIN, "east", "fire")
        await fed.clock.advance(60.0)
        link = fed.links["east"]
        before = len([said for said in link.said if isinstance(said, ClusterHello)])
        await fed.clock.advance(600.0)
        again = len([said for said in link.said if isinstance(said, ClusterHello)]) - before
        # Each refusal is an entry of the audit: one a minute, more or less.
        assert 5 <= again <= 25


# ---- what is kept of jobs that are over


async def _clean(there: World) -> None:
    """As if records were long old."""
    there.later(2 * KEEP_S)
    await there.one.retention.sweep()
    await there.one.federation.uplink.forget(there.clock.wall() - KEEP_S)
    await there.settle()


async def test_records_of_ended_jobs_go_with_the_jobs_and_not_before_the_global_plane_knows() -> None:
    async with FederatedWorlds("east") as fed:
        job, there = await fed.running()
        fed.links["east"].cut()
        agent = there.agents[0]
        agent.exited(agent.starts[job])
        await fed.until(lambda: there.state(job).phase == "SUCCEEDED")
        await _clean(there)
        # The end was not told: neither the job nor what was taken is forgotten.
        assert job in there.one.view.entries
        assert _taken(there, job) == ("CONFIRMED", False)
        fed.links["east"].mend()
        await fed.until(lambda: fed.plane.state(job).phase == "SUCCEEDED")
        await _clean(there)
        assert job not in there.one.view.entries
        assert job not in there.one.view.kept.taken


async def test_a_refusal_is_forgotten_only_after_the_two_have_settled_what_they_know() -> None:
    async with FederatedWorlds("east") as fed:
        there, link = fed.clusters["east"], fed.links["east"]
        # It fits the node, and a policy of the cluster refuses it.
        nothing = Policy(name="nothing", when="true", action="reject", message="not here")
        assert not isinstance(await there.one.policies.save(ADMIN, nothing), Refusal)
        job = await fed.plane.submit()
        await fed.until(lambda: job in there.one.view.kept.taken)
        link.cut()
        await _clean(there)
        # Word of it may be lost, and the offer said again.
        assert there.one.view.kept.taken[job].possession.refused
        await fed.plane.apply(job, Cancel(by="alice"))
        link.heard.clear()
        link.mend()
        await fed.until(lambda: [message for message in link.heard if isinstance(message, AllSettled)])
        await _clean(there)
        assert job not in there.one.view.kept.taken


async def test_what_is_listed_comes_from_records_and_not_from_a_view_that_lags() -> None:
    async with FederatedWorlds("east") as fed:
        there, link = fed.clusters["east"], fed.links["east"]
        link.cut()
        there.one.wire.hold_watch()
        await there.store.txn([], [Put(keys.cluster("unseen"), b"{}")])
        link.said.clear()
        link.mend()
        await fed.clock.advance(1.0)
        assert not [message for message in link.said if isinstance(message, ClusterHello)]
        there.one.wire.release_watch()
        await fed.until(lambda: [message for message in link.said if isinstance(message, ClusterHello)])
