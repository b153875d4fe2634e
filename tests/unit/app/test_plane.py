"""A replica that cannot come up leaves nothing behind."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from ares.app.config import AgentsConfig, Config, HttpConfig, StoreConfig
from ares.app.wiring import ControlPlane


async def test_a_plane_whose_start_failed_can_be_stopped_and_lets_go_of_everything(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = Config(
            home=str(tmp_path),
            http=HttpConfig(port=taken.getsockname()[1]),
            agents=AgentsConfig(port=0),
            store=StoreConfig(url="memory:"),
        )
        plane = ControlPlane(config)
        with pytest.raises(OSError, match=r"in use|taken"):
            await plane.start()
        await plane.stop()
    assert not {task.get_name() for task in asyncio.all_tasks()} & {"view", "progress", "leader"}
    with socket.create_server(("127.0.0.1", plane.agents_port)):
        pass


async def test_a_plane_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    await ControlPlane(Config(home=str(tmp_path), store=StoreConfig(url="memory:"))).stop()
    assert os.listdir(tmp_path) == []
