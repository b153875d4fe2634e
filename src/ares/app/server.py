"""`ares server`: one control-plane replica."""

import asyncio
import json
from pathlib import Path

import structlog

from ares.app.config import Config
from ares.app.processes import run, write_private
from ares.app.wiring import ControlPlane

log = structlog.get_logger()

CLIENT_FILE = "client.json"


def main(config: Config) -> int:
    """Serves until told to stop. The first start of an installation leaves the administrator's token."""
    config.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return run(lambda stop: _serve(config, stop))


async def _serve(config: Config, stop: asyncio.Event) -> int:
    plane = ControlPlane(config)
    await plane.start()
    try:
        await _leave_token(plane, config)
        _leave_address(plane, config)
        log.info("server.ready", url=_url(plane, config), agents=plane.agents_port)
        await stop.wait()
    finally:
        await plane.stop()
    return 0


async def _leave_token(plane: ControlPlane, config: Config) -> None:
    """There is no anonymous mode: a new store gets one administrator, whose token only we can read."""
    path = config.home_path / CLIENT_FILE
    tokens = plane.services.view.tokens.values()
    if path.exists() and any(token.role == "admin" for token in tokens):
        return
    text = await plane.services.tokens.bootstrap(config.tenant)
    write_private(str(path), json.dumps({"url": _url(plane, config), "token": text}))


def _leave_address(plane: ControlPlane, config: Config) -> None:
    """The port may have been chosen by the system: keep the client's file right."""
    path = config.home_path / CLIENT_FILE
    known = json.loads(path.read_text())
    address = {"url": _url(plane, config), "agents": f"{config.agents.host}:{plane.agents_port}"}
    if known != {**known, **address}:
        write_private(str(path), json.dumps({**known, **address}))


def _url(plane: ControlPlane, config: Config) -> str:
    scheme = "https" if config.http.tls_cert else "http"
    return f"{scheme}://{config.http.host}:{plane.http_port}"


def client_file(home: Path) -> Path:
    return home / CLIENT_FILE
