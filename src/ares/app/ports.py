"""Whether a server may listen where it is told to, and whether the ports can be had."""

import errno
import importlib.util
import socket
from urllib.parse import parse_qs, urlsplit

from ares.app.config import Config, ConfigError
from ares.core.net import is_loopback


def require_safe(config: Config) -> None:
    """Nothing beyond this machine is spoken in the clear. Said before any socket is there."""
    http, store = config.http, urlsplit(config.store_url)
    listening = [("http.host", http.host), ("agents.host", config.agents.host)]
    if (grpc := config.grpc.address) is not None:
        listening.append(("grpc.listen", grpc[0]))
        _require_protobuf()
    far = [f"{key} is {host}" for key, host in listening if not is_loopback(host)]
    if bool(http.tls_cert) != bool(http.tls_key):
        _refuse("TLS needs both a certificate and a key", "set http.tls_cert and http.tls_key")
    if far and not http.tls_cert:
        _refuse(
            f"{' and '.join(far)}, which others reach, and there is no TLS",
            "set http.tls_cert and http.tls_key (--tls-cert, --tls-key), or listen on 127.0.0.1",
        )
    if store.scheme == "etcd" and "ca" not in parse_qs(store.query):
        named = [endpoint.rpartition(":")[0].strip("[]") for endpoint in store.netloc.split(",")]
        if others := [host for host in named if not is_loopback(host)]:
            _refuse(
                f"store.url names etcd on {', '.join(others)} without TLS",
                "write etcd://HOST:PORT?ca=FILE&cert=FILE&key=FILE, and run etcd with --client-cert-auth",
            )


def _require_protobuf() -> None:
    if importlib.util.find_spec("google.protobuf") is None:
        _refuse("grpc.listen is set, and protobuf is not installed", "pip install 'ares-platform[grpc]'")


def _refuse(what: str, fix: str) -> None:
    raise ConfigError(f"start refused: {what}", fix)


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
        *(("grpc.listen", *place, "--set grpc.listen=HOST:PORT") for place in (config.grpc.address,) if place),
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
