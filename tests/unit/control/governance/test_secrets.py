"""Secrets in the control plane: sealed, given to the attempts that declare them, under keys that can be replaced."""

import msgspec
import pytest

from ares.adapters.secrets import EnvelopeVault, MemoryRing
from ares.api.secrets import KeyRotation, SecretView
from ares.control.governance.channels import ChannelWish, Sealing
from ares.control.governance.secrets import Secrets
from ares.control.submit.submit import SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.alert import ChannelRecord
from ares.model.job import RetryPolicy
from ares.model.link import Start
from ares.model.secret import SECRET_BYTES_MAX, Secret, SecretRecord, SecretRef
from ares.ports.store import Put
from tests.world import ALICE, BOB, World, spec

PW = (SecretRef(name="pw", env="PW"),)
TENANT_ADMIN = Principal(token_id="boss-token", tenant="alpha", role="tenant-admin")
COLLEAGUE = Principal(token_id="carol-token", tenant="alpha", role="submitter")


async def put(world: World, value: bytes, name: str = "pw", who: Principal = ALICE) -> SecretView:
    kept = await world.one.secrets.put(who, name, Secret(value))
    assert isinstance(kept, SecretView), kept
    return kept


def given(start: Start) -> dict[str, tuple[int, bytes]]:
    return {one.name: (one.version, one.value.reveal()) for one in start.secrets}


async def stored(world: World, name: str = "pw", tenant: str = "alpha") -> SecretRecord:
    kv = await world.store.get(keys.secret(tenant, name))
    assert kv is not None
    return msgspec.json.decode(kv.value, type=SecretRecord)


async def test_an_attempt_gets_what_is_current_and_the_ledger_says_which() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        await put(world, b"first")
        job = await world.submit(secrets=PW, retry=RetryPolicy(limit=1, base_s=0.0))
        await world.settle()
        start = agent.starts[job]
        assert given(start) == {"pw": (1, b"first")}
        agent.send(msgspec.structs.replace(agent.start_report(start), secrets={"pw": 1}))
        await put(world, b"second")
        agent.exited(start, code=1)
        await world.until(lambda: len(agent.all_starts(job)) == 2)
        assert given(agent.starts[job]) == {"pw": (2, b"second")}
        kinds = [event.data.get("secrets") for event in world.audit.events[job] if event.kind == "started"]
        assert kinds == [{"pw": 1}]


async def test_the_store_holds_names_and_ciphertext_only() -> None:
    """N26: the bytes of every record."""
    async with World() as world:
        await world.agent()
        await put(world, b"canary-in-the-store")
        await world.submit(secrets=PW)
        await world.settle()
        page = await world.store.range("/")
        assert page.kvs
        assert not any(b"canary" in kv.value for kv in page.kvs)


async def test_what_was_deleted_meanwhile_is_told_instead_of_started() -> None:
    async with World() as world:
        await put(world, b"value")
        job = await world.submit(secrets=PW)
        assert await world.one.secrets.delete(ALICE, "pw") is None
        agent = await world.agent()
        await world.settle()
        start = agent.starts[job]
        assert (start.secrets, "pw does not exist" in start.secrets_trouble) == ((), True)


async def test_admission_names_what_is_missing_and_looks_no_further_than_the_tenant() -> None:
    async with World() as world:
        await put(world, b"value", who=BOB)
        (outcome,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(secrets=PW))])
        assert isinstance(outcome, Refusal)
        assert (outcome.code, "'pw'" in outcome.message) == ("secret-unknown", True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"secrets": (SecretRef(name="pw"),)}, "secret-target"),
        ({"secrets": (SecretRef(name="pw", env="A", file="a"),)}, "secret-target"),
        ({"secrets": (*PW, *PW)}, "secret-twice"),
        ({"secrets": PW, "env": {"PW": "x"}}, "secret-twice"),
        ({"secrets": (SecretRef(name="pw", file="a"), SecretRef(name="key", file="a"))}, "secret-twice"),
        ({"secrets": (SecretRef(name="pw", env="ARES_JOB_ID"),)}, "env-reserved"),
        ({"secrets": (SecretRef(name="pw", env="CUDA_VISIBLE_DEVICES"),)}, "env-reserved"),
        ({"secrets": (SecretRef(name="large", env="LARGE"),)}, "secret-too-large"),
    ],
)
async def test_declarations_that_cannot_be(changes: dict[str, object], code: str) -> None:
    async with World() as world:
        await put(world, b"value")
        await put(world, b"x" * SECRET_BYTES_MAX, "large")
        (outcome,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(**changes))])
        assert isinstance(outcome, Refusal)
        assert outcome.code == code


async def test_submitters_change_what_they_made_and_administrators_all() -> None:
    async with World() as world:
        await put(world, b"value")
        for no in (
            await world.one.secrets.put(COLLEAGUE, "pw", Secret(b"mine now")),
            await world.one.secrets.delete(COLLEAGUE, "pw"),
        ):
            assert isinstance(no, Refusal)
            assert no.code == "forbidden"
        kept = await put(world, b"other", who=TENANT_ADMIN)
        assert (kept.version, kept.created_by, kept.updated_by) == (2, "alice-token", "boss-token")
        assert [one.name for one in await world.one.secrets.list(BOB)] == []


async def test_of_two_that_expect_the_same_version_one_wins() -> None:
    async with World(replicas=2) as world:
        await put(world, b"value")
        first = await world.one.secrets.put(ALICE, "pw", Secret(b"one"), 1)
        second = await world.two.secrets.put(ALICE, "pw", Secret(b"two"), 1)
        assert isinstance(first, SecretView)
        assert isinstance(second, Refusal)
        assert second.code == "secret-conflict"
        new = await world.two.secrets.put(ALICE, "pw", Secret(b"two"), 0)
        assert isinstance(new, Refusal)


@pytest.mark.parametrize("fault", ["request_lost", "reply_lost"])
async def test_an_answer_that_is_lost_leaves_one_version(fault: str) -> None:
    async with World() as world:
        world.faults(fault)
        kept = await put(world, b"value")
        assert (kept.version, (await stored(world)).version) == (1, 1)
        job = await world.submit(secrets=PW)
        agent = await world.agent()
        await world.settle()
        assert given(agent.starts[job]) == {"pw": (1, b"value")}


async def test_a_ciphertext_that_was_moved_does_not_open() -> None:
    async with World() as world:
        await put(world, b"theirs", who=BOB)
        await put(world, b"mine")
        theirs = await stored(world, tenant="beta")
        moved = msgspec.structs.replace(theirs, tenant="alpha")
        await world.store.txn([], [Put(keys.secret("alpha", "pw"), msgspec.json.encode(moved))])
        agent = await world.agent()
        job = await world.submit(secrets=PW)
        await world.settle()
        start = agent.starts[job]
        assert start.secrets == ()
        assert "does not belong to this name" in start.secrets_trouble


async def test_a_server_without_the_key_says_so_and_hands_out_nothing() -> None:
    async with World() as world:
        kept = await put(world, b"value")
        stranger = Secrets(world.store, world.one.view, world.clock, EnvelopeVault(MemoryRing()))
        told = stranger.reveal_for("alpha", spec(secrets=PW))
        assert isinstance(told, str)
        assert kept.key_id in told
        no = await stranger.put(ALICE, "other", Secret(b"value"))
        assert isinstance(no, Refusal)
        assert (no.code, kept.key_id in no.message) == ("secrets-key", True)
        assert [one.readable for one in await stranger.list(ALICE)] == [False]
        without = Secrets(world.store, world.one.view, world.clock, None)
        assert isinstance(without.reveal_for("alpha", spec(secrets=PW)), str)


async def test_rotation_goes_on_where_it_was_interrupted() -> None:
    async with World() as world:
        for number in range(6):
            await put(world, b"value-%d" % number, f"s{number}")
        before = await stored(world, "s0")
        world.faults(None, None, "request_lost", "request_lost")
        first = await world.one.secrets.rotate_key(TENANT_ADMIN)
        assert isinstance(first, KeyRotation)
        assert (first.made, first.rewrapped, first.left) == (True, 4, 2)
        second = await world.one.secrets.rotate_key(TENANT_ADMIN)
        assert isinstance(second, KeyRotation)
        assert (second.key_id, second.made, second.rewrapped, second.left) == (first.key_id, False, 2, 0)
        for number in range(6):
            record = await stored(world, f"s{number}")
            assert (record.key_id, record.version) == (first.key_id, 1)
            refs = (SecretRef(name=f"s{number}", file="f"),)
            revealed = world.one.secrets.reveal_for("alpha", spec(secrets=refs))
            assert not isinstance(revealed, str)
            assert revealed[0].value == Secret(b"value-%d" % number)
        assert (await stored(world, "s0")).ciphertext == before.ciphertext


async def test_channels_are_sealed_anew_too() -> None:
    async with World() as world:
        wish = ChannelWish(name="ops", kind="webhook", url="https://hooks.example/T0/canary-token")
        saved = await world.one.channels.save(TENANT_ADMIN, wish, platform=False)
        assert not isinstance(saved, Refusal)
        before = await world.store.get(keys.channel("alpha", "ops"))
        done = await world.one.secrets.rotate_key(TENANT_ADMIN)
        assert isinstance(done, KeyRotation)
        assert (done.rewrapped, done.left) == (1, 0)
        after = await world.store.get(keys.channel("alpha", "ops"))
        assert before is not None
        assert after is not None
        for kv in (before, after):
            assert b"canary" not in kv.value
            assert saved[1].encode() not in kv.value
        opened = Sealing(world.vault).open(msgspec.json.decode(after.value, type=ChannelRecord))
        assert (opened.url, opened.secret) == (wish.url, saved[1])
        stranger = Secrets(world.store, world.one.view, world.clock, EnvelopeVault(MemoryRing()))
        assert isinstance(await stranger.put(ALICE, "pw", Secret(b"value")), Refusal)


async def test_a_damaged_one_does_not_hold_a_rotation_up() -> None:
    async with World() as world:
        for number in range(3):
            await put(world, b"value", f"s{number}")
        damaged = msgspec.structs.replace(await stored(world, "s1"), wrapped=b"x" * 60)
        await world.store.txn([], [Put(keys.secret("alpha", "s1"), msgspec.json.encode(damaged))])
        for made, rewrapped in ((True, 2), (False, 0)):
            done = await world.one.secrets.rotate_key(TENANT_ADMIN)
            assert isinstance(done, KeyRotation)
            assert (done.made, done.rewrapped, done.left) == (made, rewrapped, 1)


async def test_only_so_much_is_kept() -> None:
    async with World() as world:
        for number in range(64):
            await put(world, b"x" * SECRET_BYTES_MAX, f"s{number}")
        full = await world.one.secrets.put(ALICE, "one-more", Secret(b"x"))
        assert isinstance(full, Refusal)
        assert full.code == "secrets-full"
        assert (await put(world, b"x", "s0")).version == 2
        assert (await put(world, b"x" * 100, "one-more")).version == 1
        for value in (b"", b"x" * (SECRET_BYTES_MAX + 1)):
            no = await world.one.secrets.put(ALICE, "pw", Secret(value))
            assert isinstance(no, Refusal)
            assert no.code == "secret-invalid"
