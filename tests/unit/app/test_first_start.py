"""The administrator's token survives a server that is killed anywhere in its first start."""

import asyncio
from pathlib import Path

import pytest

from ares.app import connection_file, server, store
from ares.app.config import AgentsConfig, Config, HttpConfig, StoreConfig
from ares.app.wiring import ControlPlane
from ares.model.access import Principal


class Killed(Exception):
    """Stands for kill -9: nothing after it is done."""


async def start(config: Config) -> str:
    """One life of a server, up to its readiness; the token it left."""
    plane = ControlPlane(config)
    try:
        await plane.start()
        await server._leave_token(plane, config)  # pyright: ignore[reportPrivateUsage]
        known = connection_file.connection(config.home_path)
        assert known is not None
        who = await plane.assembled.replica.tokens.authenticate(known[1])
        assert isinstance(who, Principal)
        assert who.role == "admin"
        assert connection_file.DRAFT not in connection_file.read(config.home_path)
        return known[1]
    finally:
        await plane.stop()


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_killed_before_and_after_each_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Once so many times the file was written: none, the draft, and the token after it became valid."""
    config = Config(
        home=str(tmp_path), http=HttpConfig(port=0), agents=AgentsConfig(port=0),
        store=StoreConfig(url=f"sqlite://{tmp_path}/store.db"),
    )  # fmt: skip
    done = 0
    write = connection_file.write

    def write_or_die(home: Path, **values: str) -> None:
        nonlocal done
        if done == writes:
            raise Killed
        done += 1
        write(home, **values)

    with monkeypatch.context() as patch:
        patch.setattr(connection_file, "write", write_or_die)
        if writes < 2:
            with pytest.raises(Killed):
                asyncio.run(start(config))
        else:
            asyncio.run(start(config))
    token = asyncio.run(start(config))
    # It stays the same from then on.
    assert asyncio.run(start(config)) == token


def test_a_first_administrator_who_was_revoked_does_not_come_back(tmp_path: Path) -> None:
    """Not by a restart, whoever else there is or is not: only by whoever holds the store, and it is recorded."""
    config = Config(
        home=str(tmp_path), http=HttpConfig(port=0), agents=AgentsConfig(port=0),
        store=StoreConfig(url=f"sqlite://{tmp_path}/store.db"),
    )  # fmt: skip
    token = asyncio.run(start(config))

    async def live(*, revoke: bool) -> list[bool]:
        """Which tokens of administrators are revoked, after one more life of a server."""
        plane = ControlPlane(config)
        try:
            await plane.start()
            await server._leave_token(plane, config)  # pyright: ignore[reportPrivateUsage]
            replica = plane.assembled.replica
            if revoke:
                who = await replica.tokens.authenticate(token)
                assert isinstance(who, Principal)
                assert await replica.tokens.revoke(who, who.token_id) is True
            return [one.revoked for one in replica.view.tokens.values() if one.role == "admin"]
        finally:
            await plane.stop()

    assert asyncio.run(live(revoke=True)) == [True]
    for _ in range(2):
        assert asyncio.run(live(revoke=False)) == [True]
    store.new_admin(config)
    assert sorted(asyncio.run(live(revoke=False))) == [False, True]
    assert asyncio.run(start(config)) != token
