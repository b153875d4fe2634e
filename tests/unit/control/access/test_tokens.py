"""Tokens and nodes' credentials: expiry, revocation everywhere, and join tokens that work once."""

import asyncio
from typing import Any

import pytest

from ares.adapters.store.memory import StoreFault
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Principal, TokenRecord
from ares.model.link import JoinReply, JoinRequest
from tests.world import ADMIN, World


async def make(world: World, **wish: Any) -> tuple[str, TokenRecord]:
    await world.one.tenants.ensure({wish["tenant"]})
    made = await world.one.tokens.create(ADMIN, **wish)
    assert not isinstance(made, Refusal), made
    return made


async def test_a_token_works_on_every_replica_until_it_expires() -> None:
    async with World(replicas=2) as world:
        # The other replica has not even heard of it.
        world.two.wire.hold_watch()
        text, record = await make(world, tenant="alpha", role="viewer", name="ci", ttl_s=60.0)
        for replica in world.replicas:
            who = await replica.tokens.authenticate(text)
            assert isinstance(who, Principal)
            assert (who.tenant, who.role, who.token_id) == ("alpha", "viewer", record.id)
        await world.advance(61)
        assert await world.two.tokens.authenticate(text) == denied("expired")
        world.two.wire.release_watch()
        kv = await world.store.get(f"/tokens/{record.id}")
        assert kv is not None
        assert text.rsplit("_", 1)[1].encode() not in kv.value


async def test_expiry_fails_closed_whichever_way_the_clock_jumps() -> None:
    async with World() as world:
        tokens = world.one.tokens
        text, _ = await make(world, tenant="alpha", role="viewer", name="", ttl_s=60.0)
        world.clock.jump_wall(+300)
        assert await tokens.authenticate(text) == denied("expired")
        world.clock.jump_wall(-300)
        assert isinstance(await tokens.authenticate(text), Principal)
        await world.advance(61)
        world.clock.jump_wall(-300)
        assert await tokens.authenticate(text) == denied("expired")
        # One that is made while the clock is behind lasts no longer once it is right again.
        text, record = await make(world, tenant="alpha", role="viewer", name="", ttl_s=60.0)
        assert record.expires_at == world.clock.wall() + 300 + 60
        await world.advance(61)
        assert await tokens.authenticate(text) == denied("expired")


async def test_revocation_is_seen_by_other_replicas_and_a_wrong_secret_tells_nothing() -> None:
    async with World(replicas=2) as world:
        text, record = await make(world, tenant="alpha", role="admin", name="", ttl_s=None)
        assert isinstance(await world.two.tokens.authenticate(text), Principal)
        assert await world.one.tokens.revoke(ADMIN, record.id)
        await world.settle()
        for replica in world.replicas:
            assert await replica.tokens.authenticate(text) == denied("revoked")
            forged = text[:-4] + ("AAAA" if not text.endswith("AAAA") else "BBBB")
            assert await replica.tokens.authenticate(forged) == denied("unknown")
        assert await world.two.tokens.revoke(ADMIN, record.id)
        assert not await world.two.tokens.revoke(ADMIN, "nosuchtokn")
        assert await world.one.tokens.authenticate("ares_short") == denied("malformed")


async def test_a_join_token_admits_one_node_once_even_in_a_race() -> None:
    async with World(replicas=2) as world:
        text, _ = await world.one.tokens.create_join(ADMIN, node=None, ttl_s=900.0)
        assert await world.one.tokens.authenticate(text) == denied("unknown")
        world.faults(StoreFault("delayed", 0.2), StoreFault("delayed", 0.1))
        calls = [
            asyncio.create_task(replica.sessions.join(JoinRequest(token=text, node=name)))
            for replica, name in zip(world.replicas, ("n1", "n2"), strict=True)
        ]
        await world.advance(1)
        lost, won = [call.result() for call in calls]
        assert lost == denied("revoked")
        assert isinstance(won, JoinReply)
        who = await world.one.tokens.authenticate(won.credential)
        assert isinstance(who, Principal)
        assert (who.role, who.node, who.tenant) == ("node", "n2", "system")
        assert await world.two.sessions.join(JoinRequest(token=text, node="n2")) == denied("revoked")
        # A node's credential is no join token.
        assert await world.two.sessions.join(JoinRequest(token=won.credential, node="n2")) == denied("unknown")


async def test_a_join_token_for_one_node_is_good_for_no_other_and_not_for_ever() -> None:
    async with World() as world:
        text, _ = await world.one.tokens.create_join(ADMIN, node="n1", ttl_s=900.0)
        assert await world.one.sessions.join(JoinRequest(token=text, node="n2")) == denied("unknown")
        assert isinstance(await world.one.sessions.join(JoinRequest(token=text, node="n1")), JoinReply)
        late, _ = await world.one.tokens.create_join(ADMIN, node=None, ttl_s=900.0)
        await world.advance(901)
        assert await world.one.sessions.join(JoinRequest(token=late, node="n3")) == denied("expired")


@pytest.mark.parametrize("name", ["", "a/b", "..", "n1\n", "x" * 200, "a b", "\x1b[31m"])
async def test_a_node_must_have_a_plain_name(name: str) -> None:
    async with World() as world:
        text, _ = await world.one.tokens.create_join(ADMIN, node=None, ttl_s=900.0)
        assert await world.one.sessions.join(JoinRequest(token=text, node=name)) == denied("malformed")
        assert isinstance(await world.one.sessions.join(JoinRequest(token=text, node="n-1.rack2")), JoinReply)
