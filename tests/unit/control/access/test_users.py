"""Tenants and users: written once whatever the store answers, and one login is one user's."""

import asyncio
from typing import Literal

import pytest
from msgspec.structs import replace

from ares.adapters.store.memory import StoreFault
from ares.control.access.tenants import TenantChange
from ares.control.access.users import UserChange, UserWish
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Principal, TenantRecord, UserRecord
from tests.world import ADMIN, World

LOGIN = "https://login.example.com alice-sub"


def code(outcome: object) -> str:
    return outcome.code if isinstance(outcome, Refusal) else ""


async def test_a_tenant_is_made_once_and_only_told_apart_by_its_whole_name() -> None:
    async with World(replicas=2) as world:
        both = await asyncio.gather(
            *(replica.tenants.create(ADMIN, "beta", note=replica.name) for replica in world.replicas)
        )
        assert sorted(map(code, both)) == ["", "tenant-exists"]
        assert code(await world.one.tenants.create(ADMIN, "system")) == "tenant-exists"
        await world.one.tenants.create(ADMIN, "beta-prod")
        boss = replace(ADMIN, tenant="beta", role="tenant-admin")
        assert [one.name for one in await world.two.tenants.list(boss)] == ["beta"]
        assert await world.two.tenants.get(boss, "beta-prod") is None


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost"])
async def test_what_the_store_does_not_confirm_happens_once(kind: Literal["reply_lost", "request_lost"]) -> None:
    fault = StoreFault(kind)
    async with World() as world:
        users, tenants = world.one.users, world.one.tenants
        world.faults(fault)
        assert isinstance(await tenants.create(ADMIN, "alpha"), TenantRecord)
        world.faults(fault)
        assert await tenants.update(ADMIN, "alpha", TenantChange(note="x")) == world.one.view.kept.tenants["alpha"]
        world.faults(fault)
        made = await users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer", identity=LOGIN))
        assert isinstance(made, UserRecord)
        world.faults(fault)
        changed = await users.update(ADMIN, "alice", UserChange(role="submitter"))
        assert changed == replace(made, role="submitter")
        world.faults(fault)
        token = await world.one.tokens.create(
            ADMIN, tenant="alpha", role="viewer", name="", ttl_s=None, user="alice"
        )  # fmt: skip
        assert not isinstance(token, Refusal)
        assert isinstance(await world.one.tokens.authenticate(token[0]), Principal)
        world.faults(fault)
        assert await users.delete(ADMIN, "alice") == changed
        await world.settle()
        assert (world.one.view.kept.users, world.one.view.kept.identities) == ({}, {})


async def test_a_login_is_one_users() -> None:
    async with World(replicas=2) as world:
        await world.one.tenants.ensure({"alpha", "beta"})
        boss = replace(ADMIN, tenant="beta", role="tenant-admin")
        both = await asyncio.gather(
            world.one.users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer", identity=LOGIN)),
            world.two.users.create(boss, "beta", UserWish(name="alice", role="viewer", identity=LOGIN)),
        )
        assert sorted(map(code, both)) == ["", "identity-taken"]
        bob = await world.one.users.create(ADMIN, "alpha", UserWish(name="bob", role="viewer"))
        assert isinstance(bob, UserRecord)
        taken = await world.one.users.update(ADMIN, "bob", UserChange(identity=LOGIN))
        assert code(taken) == "identity-taken"
        assert "alice" not in str(taken)
        # Given back, it is free again.
        owner = next(one for one in both if isinstance(one, UserRecord))
        await world.one.users.update(replace(ADMIN, tenant=owner.tenant), "alice", UserChange(identity=""))
        moved = await world.one.users.update(ADMIN, "bob", UserChange(identity=LOGIN))
        assert moved == replace(bob, identity=LOGIN)


async def test_a_program_has_no_login() -> None:
    async with World() as world:
        await world.one.tenants.ensure({"alpha"})
        wish = UserWish(name="ci", role="submitter", service=True)
        assert code(await world.one.users.create(ADMIN, "alpha", replace(wish, identity=LOGIN))) == "invalid"
        await world.one.users.create(ADMIN, "alpha", wish)
        assert code(await world.one.users.update(ADMIN, "ci", UserChange(identity=LOGIN))) == "invalid"
        assert code(await world.one.users.create(ADMIN, "gamma", wish)) == "no-such-tenant"


async def test_a_replica_that_has_not_heard_of_a_user_asks_the_store() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        await world.one.tenants.ensure({"alpha"})
        await world.one.users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer", team="vision"))
        made = await world.one.tokens.create(
            ADMIN, tenant="alpha", role="viewer", name="", ttl_s=None, user="alice"
        )  # fmt: skip
        assert not isinstance(made, Refusal)
        who = await world.two.tokens.authenticate(made[0])
        assert isinstance(who, Principal)
        assert (who.user, who.team) == ("alice", "vision")
        world.two.wire.release_watch()
        await world.one.users.delete(ADMIN, "alice")
        await world.settle()
        assert await world.two.tokens.authenticate(made[0]) == denied("revoked", "user_gone")


async def test_a_token_made_while_its_user_goes_is_no_token() -> None:
    async with World(replicas=2) as world:
        await world.one.tenants.ensure({"alpha"})
        await world.one.users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer"))
        made, gone = await asyncio.gather(
            world.one.tokens.create(ADMIN, tenant="alpha", role="viewer", name="", ttl_s=None, user="alice"),
            world.two.users.delete(ADMIN, "alice"),
        )
        assert isinstance(gone, UserRecord)
        await world.one.users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer"))
        await world.settle()
        assert isinstance(made, Refusal) or isinstance(await world.one.tokens.authenticate(made[0]), Refusal)


async def test_tenants_from_before_there_were_any_get_a_record_once() -> None:
    async with World(replicas=2) as world:
        await asyncio.gather(
            *(replica.tenants.ensure({"alpha", "beta", "system", "No Slug"}) for replica in world.replicas)
        )
        await world.one.tenants.update(ADMIN, "beta", TenantChange(disabled=True))
        await world.two.tenants.ensure({"beta"})
        tenants = await world.two.tenants.list(ADMIN)
        assert [(one.name, one.disabled) for one in tenants] == [("alpha", False), ("beta", True)]


async def test_tokens_are_limited_and_those_that_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.control.access.tokens.OWN_TOKENS_MAX", 3)
    monkeypatch.setattr("ares.control.access.tokens.FORGET_S", 20.0)
    async with World() as world:
        tokens = world.one.tokens
        await world.one.tenants.ensure({"alpha"})
        await world.one.users.create(ADMIN, "alpha", UserWish(name="alice", role="viewer"))
        alice = Principal(token_id="x", tenant="alpha", role="viewer", user="alice", proof="jwt")

        async def make(ttl_s: float | None = None) -> str:
            made = await tokens.create_own(alice, role=None, name="", ttl_s=ttl_s)
            return made.code if isinstance(made, Refusal) else made[1].id

        first = await make()
        await make(1.0)
        await make()
        # Making and revoking without end does not get past it.
        assert await tokens.revoke_own(alice, first) is True
        assert await make() == "access-full"
        await world.advance(15)
        assert await make() == "access-full"
        await world.advance(10)
        assert len(await make()) == 10
        assert len(world.one.view.tokens) == 2
        # A user cannot be called what a token is, for what the token made would be theirs.
        mole = await world.one.users.create(
            ADMIN, "alpha", UserWish(name=next(iter(world.one.view.tokens)), role="viewer")
        )
        assert code(mole) == "user-exists"
