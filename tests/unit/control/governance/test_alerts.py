"""Alerts: one record however often it is raised, told once for each time it begins, and never forgotten."""

from msgspec.structs import replace

from ares.control.governance import alerts as alerts_service
from ares.control.governance.channels import ChannelWish, Sealing
from ares.core import keys
from ares.core.alerts import EPISODE_S, TRIES_MAX, again, due, in_turn, marked
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.alert import AlertRecord, ChannelRecord, Notice
from ares.ports.notify import NotDelivered
from tests.world import ADMIN, Replica, World

OWNER = Principal(token_id="owner", tenant="alpha", role="tenant-admin")
HOOK = ChannelWish(name="ops", kind="webhook", url="https://hooks.example/x")


class Postman:
    """Remembers what it delivered; fails as often as it is told."""

    def __init__(self, failures: int = 0, *, final: bool = False) -> None:
        self.got: list[tuple[str, Notice]] = []
        self.tries = 0
        self._failures = failures
        self._final = final

    def unusable(self, channel: ChannelRecord) -> str | None:
        return None

    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        self.tries += 1
        if self.tries <= self._failures:
            raise NotDelivered("nobody is at home", final=self._final)
        self.got.append((channel.name, notice))


def only(world: World, tenant: str = "alpha") -> AlertRecord:
    prefix = keys.scoped(tenant, "")
    (found,) = (one for name, one in world.one.view.kept.alerts.items() if name.startswith(prefix))
    return found


async def raised(world: World, times: int = 1, apart_s: float = 11.0, **changes: str) -> None:
    for number in range(times):
        replica = world.replicas[number % len(world.replicas)]
        await replica.alerts.raise_("quota", "alpha", "gpus", "90 %", {"used": 90.0}, **changes)  # type: ignore[arg-type]
        await world.advance(apart_s)


async def channel(world: World, wish: ChannelWish = HOOK, who: Principal = OWNER, *, platform: bool = False) -> str:
    saved = await world.one.channels.save(who, wish, platform=platform)
    assert not isinstance(saved, Refusal)
    return saved[1]


async def test_what_repeats_is_counted_and_told_once() -> None:
    postman = Postman()
    async with World(replicas=2, notifier=postman) as world:
        await channel(world)
        await raised(world, 5)
        await world.settle()
        assert (only(world).count, only(world).episode) == (5, 1)
        ((name, notice),) = postman.got
        assert (name, notice.numbers, notice.id) == ("ops", {"used": 90.0}, f"{only(world).id}-1")


async def test_it_is_told_again_when_it_was_over_or_got_worse() -> None:
    postman = Postman()
    async with World(notifier=postman) as world:
        await channel(world)
        await raised(world)
        await world.one.alerts.settle(OWNER, only(world).id, "resolved", note="more GPUs")
        await raised(world)
        await raised(world, severity="critical")
        await raised(world, severity="critical")
        assert [notice.id.rpartition("-")[2] for _, notice in postman.got] == ["1", "2", "3"]
        assert (only(world).severity, only(world).count) == ("critical", 2)


async def test_an_acknowledged_alert_stays_so_while_it_goes_on() -> None:
    async with World() as world:
        await raised(world)
        await world.one.alerts.settle(OWNER, only(world).id, "acknowledged")
        await raised(world)
        assert (only(world).state, only(world).by, only(world).count) == ("acknowledged", "owner", 2)


async def test_what_does_not_arrive_is_tried_ever_less_often_and_by_the_next_leader_too() -> None:
    postman = Postman(failures=3)
    async with World(replicas=2, notifier=postman) as world:
        await channel(world)
        await raised(world, apart_s=0.0)
        await world.until(lambda: postman.tries == 2)
        (leader,) = world.leading()
        await leader.stop()
        world.replicas.remove(leader)
        await world.until(lambda: postman.got, within_s=120.0)
        sent = only(world).sent["alpha/ops"]
        assert (sent.tries, sent.error) == (4, "")
        assert sent.arrived_at is not None
        await world.advance(30.0)
        assert len(postman.got) == 1


async def test_a_leader_that_dies_after_it_sent_and_before_it_wrote_so_sends_the_same_id_again() -> None:
    """At least once; the id tells the receiver that it is the same."""
    postman = Postman()
    async with World(replicas=2, notifier=postman) as world:
        await channel(world)
        (leader,) = world.leading()
        other = next(replica for replica in world.replicas if replica is not leader)
        # What it writes from now on never lands.
        await other.alerts.raise_("quota", "alpha", "gpus", "90 %")
        leader.wire.up = False
        await world.until(lambda: other.leader.leading, within_s=60.0)
        await world.until(lambda: only_sent(other), within_s=120.0)
        assert len({notice.id for _, notice in postman.got}) == 1
        leader.wire.up = True


def only_sent(replica: Replica) -> bool:
    kept = replica.view.kept.alerts.values()
    return any(sent.arrived_at is not None for one in kept for sent in one.sent.values())


async def test_a_receiver_that_says_no_for_good_is_not_asked_again() -> None:
    postman = Postman(failures=99, final=True)
    async with World(notifier=postman) as world:
        await channel(world)
        await raised(world)
        await world.advance(60.0)
        assert (only(world).sent["alpha/ops"].given_up, postman.tries) == (True, 1)


def test_tries_come_ever_less_often_and_end() -> None:
    alert, hook = (
        AlertRecord(id="a", kind="k", tenant="alpha", subject="s", text="t"),
        ChannelRecord(name="ops", kind="webhook", tenant="alpha"),
    )
    now, waits = 0.0, list[float]()
    while True:
        found, wait_s = due([alert], {"alpha/ops": hook}, now)
        if found:
            alert = marked(alert, "alpha/ops", alert.episode, "nobody", False, now)
            continue
        if wait_s is None:
            break
        waits.append(wait_s)
        now += wait_s
    assert waits[:4] == [5.0, 10.0, 20.0, 40.0]
    assert max(waits) == 600.0
    assert alert.sent["alpha/ops"].tries == TRIES_MAX
    # The next time it begins, it is told anew.
    worse = again(alert, replace(alert, severity="critical", last_at=1.0))
    assert due([worse], {"alpha/ops": hook}, now)[0] == [(worse, "alpha/ops")]


def test_a_tenant_with_many_alerts_delays_its_own() -> None:
    channels = {
        "alpha/ops": ChannelRecord(name="ops", kind="webhook", tenant="alpha"),
        "beta/ops": ChannelRecord(name="ops", kind="webhook", tenant="beta"),
        "/ops": ChannelRecord(name="ops", kind="webhook"),
    }
    flood = [AlertRecord(id=f"a{n}", kind="k", tenant="alpha", subject="s", text="t") for n in range(20)]
    others = [AlertRecord(id=tenant or "p", kind="k", tenant=tenant, subject="s", text="t") for tenant in ("beta", "")]
    found, _ = due([*flood, *others], channels, 0.0)
    told = [(alert.id, name) for alert, name in in_turn(found, channels)]
    assert told == [
        ("p", "/ops"), ("a0", "alpha/ops"), ("beta", "beta/ops"), ("a1", "alpha/ops"), ("a2", "alpha/ops"),
        ("a3", "alpha/ops"),
    ]  # fmt: skip


def test_what_was_quiet_for_long_begins_anew() -> None:
    alert = AlertRecord(id="a", kind="k", tenant="alpha", subject="s", text="t", last_at=100.0, count=7)
    assert again(alert, replace(alert, last_at=100.0 + EPISODE_S)).episode == 1
    later = again(alert, replace(alert, last_at=101.0 + EPISODE_S, count=1))
    assert (later.episode, later.count) == (2, 1)


async def test_channels_get_what_is_theirs_and_no_more() -> None:
    postman = Postman()
    async with World(notifier=postman) as world:
        await channel(world, replace(HOOK, name="mine"))
        await channel(world, replace(HOOK, name="loud", severity="critical"))
        await channel(world, replace(HOOK, name="kinds", kinds=("budget",)))
        await channel(world, replace(HOOK, name="off", enabled=False))
        await channel(world, HOOK, replace(OWNER, tenant="beta"))
        await channel(world, replace(HOOK, name="platform"), ADMIN, platform=True)
        await channel(world, replace(HOOK, name="everything", all_tenants=True), ADMIN, platform=True)
        await raised(world)
        await world.one.alerts.raise_("budget", "alpha", "month", "spent", severity="critical")
        await world.one.alerts.raise_("chain", "", "audit", "broken")
        await world.settle()
        got: dict[str, set[str]] = {}
        for name, notice in postman.got:
            got.setdefault(name, set()).add(notice.kind)
        assert got == {
            "mine": {"quota", "budget"}, "loud": {"budget"}, "kinds": {"budget"}, "platform": {"chain"},
            "everything": {"quota", "budget", "chain"},
        }  # fmt: skip


async def test_an_alert_outlasts_a_store_that_is_away() -> None:
    async with World() as world:
        world.one.wire.up = False
        await world.one.alerts.raise_("quota", "alpha", "gpus", "90 %")
        world.one.wire.up = True
        await world.until(lambda: world.one.view.kept.alerts)
        assert only(world).text == "90 %"


async def test_an_unknown_answer_makes_one_alert_counted_once() -> None:
    async with World() as world:
        world.faults("reply_lost")
        await raised(world)
        assert only(world).count == 1


async def test_alerts_are_bounded_the_quietest_that_are_over_go_first() -> None:
    async with World() as world:
        limit, alerts_service.ALERTS_MAX = alerts_service.ALERTS_MAX, 3
        try:
            for number in range(3):
                await world.one.alerts.raise_("quota", "alpha", f"s{number}", "x")
                await world.advance(1.0)
            over = next(one for one in world.one.view.kept.alerts.values() if one.subject == "s1")
            await world.one.alerts.settle(OWNER, over.id, "resolved")
            await world.one.alerts.raise_("quota", "alpha", "s3", "x")
            await world.one.alerts.raise_("quota", "beta", "s1", "x")
            await world.settle()
            left = {(one.tenant, one.subject) for one in world.one.view.kept.alerts.values()}
            assert left == {("alpha", "s0"), ("alpha", "s2"), ("alpha", "s3"), ("beta", "s1")}
        finally:
            alerts_service.ALERTS_MAX = limit


async def test_a_secret_is_told_when_it_is_new_and_stays_what_it_is() -> None:
    async with World(notifier=Postman()) as world:
        secret = await channel(world)
        assert len(secret) == 48
        assert await channel(world, replace(HOOK, severity="critical")) == ""
        assert await channel(world, replace(HOOK, secret="a-secret-of-my-own")) == "a-secret-of-my-own"
        record = world.one.view.kept.channels["alpha/ops"]
        assert (record.secret, record.url) == ("", ""), "it is in the store as it is"
        opened = Sealing(world.vault).open(record)
        assert (opened.secret, opened.url) == ("a-secret-of-my-own", HOOK.url)
        assert "secret-of" not in repr(record)
        assert "/x" not in repr(record)
        short = await world.one.channels.save(OWNER, replace(HOOK, secret="short"), platform=False)
        assert isinstance(short, Refusal)
