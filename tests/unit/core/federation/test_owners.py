"""Who owns a job: the global plane's table, and what a cluster makes of each message."""

import pytest

from ares.core.federation import clusters, owners, possession
from ares.core.federation.autonomy import MODE_STEPS, WORKS
from ares.core.federation.autonomy import step as mode_step
from ares.core.federation.epochs import raised, shown
from ares.core.federation.messages import (
    JobConfirm,
    JobOffer,
    JobReleased,
    JobVerdict,
    JobWithdraw,
    OfferAccepted,
    OfferDeclined,
    OfferWithdrawn,
)
from ares.core.federation.owners import ClusterDead, LeaseOver, MakeOffer, OfferSilent
from ares.core.refusal import Refusal
from ares.model.cluster import ClusterRecord, Owner, Possession, Taken

FIRST = raised(0, 1)
HELD = Owner()
OFFERED = Owner(cluster="a", epoch=FIRST, stage="OFFERED")
CONFIRMED = Owner(cluster="a", epoch=FIRST, stage="CONFIRMED")


def step(owner: Owner, asked: owners.OwnerInput, *, ended: bool = False) -> Owner | Refusal:
    return owners.step(owner, asked, store_epoch=1, ended=ended)


class TestGlobalPlane:
    def test_a_job_is_offered_accepted_and_confirmed(self) -> None:
        offered = step(HELD, MakeOffer(cluster="a"))
        assert offered == OFFERED
        assert owners.due("j", OFFERED, 1) == JobOffer(job="j", epoch=FIRST)
        assert step(OFFERED, OfferAccepted(job="j", cluster="a", epoch=FIRST)) == CONFIRMED
        assert owners.due("j", CONFIRMED, 1) == JobConfirm(job="j", epoch=FIRST)

    @pytest.mark.parametrize(
        "answer",
        [
            OfferDeclined(job="j", cluster="a", epoch=FIRST),
            OfferWithdrawn(job="j", cluster="a", epoch=FIRST),
            OfferSilent(epoch=FIRST),
        ],
    )
    def test_an_offer_that_is_over_leaves_its_epoch_behind(self, answer: owners.OwnerInput) -> None:
        held = step(OFFERED, answer)
        assert held == Owner(epoch=FIRST)
        assert isinstance(held, Owner)
        again = step(held, MakeOffer(cluster="b"))
        assert again == Owner(cluster="b", epoch=FIRST + 1, stage="OFFERED")

    @pytest.mark.parametrize(
        "asked",
        [
            JobReleased(job="j", cluster="a", epoch=FIRST),
            ClusterDead(cluster="a"),
            LeaseOver(cluster="a", epoch=FIRST),
            OfferDeclined(job="j", cluster="a", epoch=FIRST),
        ],
    )
    def test_a_confirmed_job_that_comes_back_has_a_higher_epoch(self, asked: owners.OwnerInput) -> None:
        assert step(CONFIRMED, asked) == Owner(epoch=FIRST + 1)

    def test_silence_takes_no_confirmed_job_away(self) -> None:
        refused = step(CONFIRMED, OfferSilent(epoch=FIRST))
        assert isinstance(refused, Refusal)
        assert refused.code == "not-allowed"

    @pytest.mark.parametrize(
        "asked",
        [
            OfferAccepted(job="j", cluster="b", epoch=FIRST),
            OfferAccepted(job="j", cluster="a", epoch=FIRST - 1),
            JobReleased(job="j", cluster="a", epoch=FIRST + 1),
            LeaseOver(cluster="b", epoch=FIRST),
            ClusterDead(cluster="b"),
        ],
    )
    @pytest.mark.parametrize("owner", [OFFERED, CONFIRMED, Owner(epoch=FIRST)])
    def test_what_is_about_another_owner_is_refused(self, owner: Owner, asked: owners.OwnerInput) -> None:
        refused = step(owner, asked)
        assert isinstance(refused, Refusal)
        assert refused.code == "stale-epoch"
        assert "1." in refused.message

    def test_an_ended_job_keeps_its_owner(self) -> None:
        refused = step(CONFIRMED, ClusterDead(cluster="a"), ended=True)
        assert isinstance(refused, Refusal)
        assert refused.code == "terminal"

    def test_only_the_confirmed_epoch_of_the_owner_counts(self) -> None:
        assert owners.carries(CONFIRMED, "a", FIRST)
        assert not owners.carries(CONFIRMED, "a", FIRST - 1)
        assert not owners.carries(CONFIRMED, "b", FIRST)
        assert not owners.carries(OFFERED, "a", FIRST)

    def test_the_cluster_that_lost_a_job_is_told(self) -> None:
        assert owners.withdrawal("j", OFFERED, Owner(epoch=FIRST)) == JobWithdraw(job="j", epoch=FIRST)
        assert owners.withdrawal("j", OFFERED, CONFIRMED) is None
        assert owners.withdrawal("j", HELD, OFFERED) is None

    def test_a_restored_store_gives_out_no_epoch_twice(self) -> None:
        before = raised(raised(0, 1), 1)
        assert raised(0, 2) > before
        assert shown(before) == "1.2"
        assert shown(raised(0, 2)) == "2.1"

    def test_what_was_offered_before_a_restore_is_not_confirmed(self) -> None:
        late = OfferAccepted(job="j", cluster="a", epoch=FIRST)
        refused = owners.step(OFFERED, late, store_epoch=2)
        assert isinstance(refused, Refusal)
        assert refused.code == "stale-epoch"
        assert owners.due("j", OFFERED, 2) is None
        assert owners.due("j", CONFIRMED, 2) is None

    def test_a_job_of_the_backup_waits_until_every_cluster_has_healed(self) -> None:
        assert not owners.may_offer(Owner(epoch=FIRST), 2, rebuilt=False)
        assert owners.may_offer(Owner(epoch=FIRST), 2, rebuilt=True)
        assert owners.may_offer(owners.submitted(2), 2, rebuilt=False)
        assert not owners.may_offer(OFFERED, 1, rebuilt=True)

    def test_the_cluster_fences_itself_before_its_job_moves(self) -> None:
        assert owners.must_fence(0.0, 42.0, 60.0)
        assert not owners.must_fence(0.0, 41.9, 60.0)
        assert owners.lease_over(0.0, 60.0, 60.0)
        assert not owners.lease_over(0.0, 59.9, 60.0)


class TestCluster:
    offer = JobOffer(job="j", epoch=5)

    def test_it_starts_on_the_confirmation_and_not_before(self) -> None:
        accepted = possession.offered("a", Possession(), self.offer)
        assert accepted.answers == (OfferAccepted(job="j", cluster="a", epoch=5),)
        assert not possession.startable(accepted.possession)
        sure = possession.confirmed("a", accepted.possession, JobConfirm(job="j", epoch=5))
        assert possession.startable(sure.possession)

    def test_a_repeated_offer_gets_the_same_answer(self) -> None:
        once = possession.offered("a", Possession(), self.offer)
        assert possession.offered("a", once.possession, self.offer, "full") == once

    def test_what_it_declined_it_never_accepts(self) -> None:
        declined = possession.offered("a", Possession(), self.offer, "full")
        assert declined.possession == Possession(refused=5)
        again = possession.offered("a", declined.possession, self.offer)
        assert again.answers == (OfferDeclined(job="j", cluster="a", epoch=5, code="refused-before"),)
        assert possession.offered("a", declined.possession, JobOffer(job="j", epoch=6)).possession.taken == Taken(
            epoch=6
        )

    def test_a_withdrawal_before_its_offer_wins(self) -> None:
        late = possession.withdrawn("a", Possession(), JobWithdraw(job="j", epoch=5))
        assert possession.offered("a", late.possession, self.offer).possession.taken is None

    def test_a_confirmation_of_another_epoch_starts_nothing(self) -> None:
        held = Possession(taken=Taken(epoch=6), refused=5)
        done = possession.confirmed("a", held, JobConfirm(job="j", epoch=5))
        assert not possession.startable(done.possession)
        assert done.answers == (OfferDeclined(job="j", cluster="a", epoch=5, code="refused-before"),)
        assert possession.confirmed("a", Possession(), JobConfirm(job="j", epoch=5)).answers == ()

    def test_what_runs_is_stopped_before_a_newer_offer_is_taken(self) -> None:
        running = Possession(taken=Taken(epoch=4, stage="CONFIRMED"))
        done = possession.offered("a", running, self.offer)
        assert done.stop
        assert not possession.startable(done.possession)
        assert isinstance(done.answers[0], OfferDeclined)
        assert possession.gone(done.possession).possession == Possession(refused=5)

    def test_a_verdict_stops_what_runs_up_to_its_epoch(self) -> None:
        running = Possession(taken=Taken(epoch=5, stage="CONFIRMED"))
        assert possession.judged("a", running, JobVerdict(job="j", epoch=5, do="stop")).stop
        assert not possession.judged("a", running, JobVerdict(job="j", epoch=4, do="stop")).stop
        assert not possession.judged("a", running, JobVerdict(job="j", epoch=5, do="keep")).stop
        assert possession.judged("a", running, JobVerdict(job="j", epoch=5, do="ended")).possession == running

    def test_a_release_is_durable_before_it_is_told(self) -> None:
        done = possession.released("a", "j", Possession(taken=Taken(epoch=5, stage="CONFIRMED")))
        assert done.possession == Possession(refused=5)
        assert done.answers == (JobReleased(job="j", cluster="a", epoch=5),)
        unsure = possession.released("a", "j", Possession(taken=Taken(epoch=5)))
        assert unsure.answers == (OfferDeclined(job="j", cluster="a", epoch=5, code="let-go"),)


class TestRecord:
    record = ClusterRecord(name="a", code="001", epoch=3)

    def test_it_joins_drains_and_leaves(self) -> None:
        record = self.record
        for asked, state in (("checked", "ACTIVE"), ("drain", "DRAINING"), ("drain", "DRAINING"), ("emptied", "LEFT")):
            after = clusters.step(record, asked, 1.0)  # type: ignore[arg-type]
            assert isinstance(after, ClusterRecord)
            record = after
            assert record.state == state
            assert clusters.takes_offers(record) == (state == "ACTIVE")

    def test_dead_is_for_good(self) -> None:
        dead = clusters.step(self.record, "declare-dead", 1.0, "burnt down")
        assert isinstance(dead, ClusterRecord)
        refused = clusters.step(dead, "checked", 2.0)
        assert isinstance(refused, Refusal)
        assert isinstance(clusters.hello(dead, 1, 3), Refusal)

    def test_a_store_that_went_back_must_have_a_new_epoch(self) -> None:
        assert clusters.hello(self.record, 1, 3) == self.record
        assert isinstance(clusters.hello(self.record, 1, 2), Refusal)
        assert isinstance(clusters.hello(self.record, 2, 3), Refusal)
        newer = clusters.hello(self.record, 1, 4)
        assert isinstance(newer, ClusterRecord)
        assert newer.epoch == 4

    def test_codes_name_the_cluster_of_a_local_job(self) -> None:
        codes = [clusters.code_of(number) for number in range(2000)]
        assert len(set(codes)) == 2000
        assert clusters.code_in(clusters.local_id(codes[77], "abcdefghj0123456")) == codes[77]
        assert clusters.code_in("abcdefghj0123456") == ""
        with pytest.raises(ValueError, match="32768 codes"):
            clusters.code_of(32768)


class TestAutonomy:
    def test_a_cluster_is_federated_again_when_every_verdict_is_durable(self) -> None:
        mode = mode_step("FEDERATED", "cut")
        assert mode == "AUTONOMOUS"
        mode = mode_step(mode, "settled")
        assert mode == "AUTONOMOUS"
        mode = mode_step(mode, "connected")
        assert mode == "RECONCILING"
        assert mode_step(mode, "settled") == "FEDERATED"

    def test_a_cut_off_cluster_runs_its_jobs_and_changes_no_rules(self) -> None:
        assert "AUTONOMOUS" in WORKS["submit locally"]
        assert "AUTONOMOUS" not in WORKS["change quotas"]
        assert {mode for mode, _ in MODE_STEPS} == {"FEDERATED", "AUTONOMOUS", "RECONCILING"}


def test_a_verdict_about_an_earlier_epoch_lets_go_of_nothing_that_was_accepted_since() -> None:
    held = Possession(taken=Taken(epoch=6), refused=5)
    earlier = possession.judged("a", held, JobVerdict(job="j", epoch=5, do="stop"))
    # It would be confirmed and run, and the global plane would give it to another.
    assert (earlier.possession, earlier.answers) == (held, ())
    now = possession.judged("a", held, JobVerdict(job="j", epoch=6, do="stop"))
    assert now.possession.taken is None
    assert now.answers == (OfferDeclined(job="j", cluster="a", epoch=6, code="stopped"),)
