"""`ares server`: one control-plane replica."""

import asyncio

import structlog

from ares.app import audit, connection_file
from ares.app.config import Config, ConfigError
from ares.app.ports import require_ports, require_safe
from ares.app.processes import change_threads_often, configure_logging, look_for_garbage_less_often, run
from ares.app.wiring import ControlPlane
from ares.model.access import Principal

log = structlog.get_logger()


def main(config: Config) -> int:
    """Serves until told to stop. The first start of an installation leaves the administrator's token."""
    configure_logging()
    try:
        require_safe(config)
    except ConfigError as error:
        log.error("start_refused", why=str(error))
        if config.home_path.exists():
            audit.note(config, "serverStart", outcome="DENY", reason="start_refused")
        raise
    config.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_ports(config)
    change_threads_often()
    return run(lambda stop: _serve(config, stop))


async def _serve(config: Config, stop: asyncio.Event) -> int:
    plane = ControlPlane(config)
    try:
        await plane.start()
        await _leave_token(plane, config)
        look_for_garbage_less_often()
        log.info("server.ready", url=_url(plane, config), agents=plane.agents_port, grpc=plane.grpc_port)
        await _either(stop, plane.failed)
    finally:
        await plane.stop()
    # The supervisor (or systemd) starts another server, which reads the state anew.
    return 1 if plane.failed.is_set() else 0


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _leave_token(plane: ControlPlane, config: Config) -> None:
    """There is no anonymous mode: a new store gets one administrator, whose token only we can read. It gets no other,
    also when that one was revoked."""
    where = {
        "url": _url(plane, config),
        "agents": f"{config.agents.host}:{plane.agents_port}",
        "grpc": _grpc(plane, config),
    }
    replica = plane.assembled.replica
    await replica.tenants.ensure({config.tenant, *(token.tenant for token in replica.view.tokens.values())})
    home = config.home_path
    token = await replica.tokens.bootstrap(config.tenant, lambda drafted: connection_file.write(home, draft=drafted))
    if token is not None:
        connection_file.write(home, **where, token=token, draft="")
        return
    known = connection_file.read(home)
    drafted = known.get(connection_file.DRAFT, "")
    if drafted and isinstance(await replica.tokens.authenticate(drafted), Principal):
        # An earlier server was killed before it could hand over what it had made valid.
        connection_file.write(home, **where, token=drafted, draft="")
    # Replicas share one store: only the machine that holds the token keeps an address with it.
    elif "token" in known:
        connection_file.write(home, **where)


def _grpc(plane: ControlPlane, config: Config) -> str:
    """Where the gRPC service listens; empty when it is off."""
    return "" if plane.grpc_port is None else f"{config.grpc.listen.rpartition(':')[0]}:{plane.grpc_port}"


def _url(plane: ControlPlane, config: Config) -> str:
    scheme = "https" if config.http.tls_cert else "http"
    return f"{scheme}://{config.http.host}:{plane.http_port}"
