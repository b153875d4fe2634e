"""Whether the ports a server is to listen on can be had."""

import errno
import socket

from ares.app.config import Config, ConfigError


def require_ports(config: Config) -> None:
    """Says at once, and before anything else is touched, that a port is not to be had."""
    ports = (
        ("http.port", config.http.host, config.http.port, "--listen HOST:PORT (`ares up --port PORT`)"),
        (
            "agents.port",
            config.agents.host,
            config.agents.port,
            "--agents HOST:PORT (`ares up --set agents.port=PORT`)",
        ),
    )
    for key, host, port, flag in ports:
        if port and (trouble := _trouble(host, port)):
            raise ConfigError(f"cannot listen on {host} port {port}: {trouble}", f"choose another by {flag} or {key}")


def _trouble(host: str, port: int) -> str:
    """Why we could not listen there; empty if we could."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return _TROUBLES.get(error.errno or 0, error.strerror or str(error))
    return ""


_TROUBLES = {
    errno.EADDRINUSE: "another program listens there",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "only root may use that port",
}
