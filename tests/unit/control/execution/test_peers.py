"""Which node another node reads a dataset from: one that has it, is alive, and lets others read."""

from collections.abc import AsyncIterator

import pytest_asyncio
from msgspec.structs import replace

from ares.core.dataset import cached_name
from ares.core.project import PartPlace
from ares.core.transfer.peers import peer_ask
from ares.model.link import FetchPiece
from tests.world import World

VERSION = "a" * 64
PARTS = tuple(f"{number:08x}" + "0" * 56 for number in range(8))
PLACES = {part: PartPlace("films/one", number << 23, 8 << 20) for number, part in enumerate(PARTS)}


@pytest_asyncio.fixture
async def world_of_three() -> AsyncIterator[World]:
    """n2 and n3 have the version."""
    async with World() as world:
        for number in (1, 2, 3):
            await world.agent(f"n{number}", address=f"10.0.0.{number}", peer_port=7000)
        nodes = world.one.view.nodes
        for node in ("n2", "n3"):
            nodes[node] = replace(nodes[node], cached=(cached_name("acme", VERSION),))
        yield world


async def test_parts_are_spread_over_nodes_that_have_it(world_of_three: World) -> None:
    world = world_of_three
    pieces = found(world, "n1")
    assert {piece.url.split("/")[2] for piece in pieces} == {"10.0.0.2:7000", "10.0.0.3:7000"}
    for piece in pieces:
        node = {"10.0.0.2:7000": "n2", "10.0.0.3:7000": "n3"}[piece.url.split("/")[2]]
        target = "/" + piece.url.split("/", 3)[3]
        key = world.one.secrets.peer_key(node, world.one.view.nodes[node].incarnation)
        ask = peer_ask(key, target, world.clock.wall())
        assert ask is not None
        assert (ask.tenant, ask.version, ask.at, ask.size) == ("acme", VERSION, PLACES[piece.sha256].at, piece.size)
        # Another node's key, and an earlier life of this one's, seal nothing here.
        assert peer_ask(world.one.secrets.peer_key(node, 99), target, world.clock.wall()) is None
        assert piece.peer


async def test_a_node_does_not_ask_itself_nor_others_for_another_tenants(world_of_three: World) -> None:
    assert "10.0.0.2:7000" not in {piece.url.split("/")[2] for piece in found(world_of_three, "n2")}
    assert found(world_of_three, "n1", tenant="other") == []


async def test_nodes_of_the_same_rack_come_first(world_of_three: World) -> None:
    for node, rack in (("n1", "r1"), ("n3", "r1"), ("n2", "r2")):
        told(world_of_three, node, rack=rack)
    assert {piece.url.split("/")[2] for piece in found(world_of_three, "n1")} == {"10.0.0.3:7000"}


async def test_nodes_that_are_silent_closed_or_odd_are_not_asked(world_of_three: World) -> None:
    told(world_of_three, "n2", peer_port=0)
    told(world_of_three, "n3", address="evil/../@10.0.0.9")
    assert found(world_of_three, "n1") == []
    told(world_of_three, "n3", address="fd00::3")
    assert {piece.url[:21] for piece in found(world_of_three, "n1")} == {"http://[fd00::3]:7000"}
    world_of_three.one.view.leases.pop("n3")
    assert found(world_of_three, "n1") == []


def told(world: World, node: str, **changes: object) -> None:
    record = world.one.view.nodes[node]
    world.one.view.nodes[node] = replace(record, info=replace(record.info, **changes))


def found(world: World, node: str, tenant: str = "acme") -> list[FetchPiece]:
    peers = world.one.staging._peers  # pyright: ignore[reportPrivateUsage]
    assert peers is not None
    # What was known a moment ago is looked up again.
    peers._known.clear()  # pyright: ignore[reportPrivateUsage]
    return list(peers.pieces(node, tenant, VERSION, PLACES, PARTS) or ())
