"""The port for agents: in the clear on the control plane's own machine, by certificates everywhere else."""

from collections.abc import Callable
from typing import NamedTuple

import grpc
import grpc.aio


class Tls(NamedTuple):
    """The control plane's certificate and key, and whose certificates agents must have. In PEM."""

    certificate: bytes
    key: bytes
    clients: bytes


# Asked at every handshake: certificates are replaced while a server runs.
TlsSource = Callable[[], Tls]


def bind(server: grpc.aio.Server, address: str, tls: TlsSource | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    source = tls

    def fetch() -> grpc.ServerCertificateConfiguration:
        now = source()
        return grpc.ssl_server_certificate_configuration([(now.key, now.certificate)], root_certificates=now.clients)

    credentials = grpc.dynamic_ssl_server_credentials(fetch(), fetch, require_client_authentication=True)
    return server.add_secure_port(address, credentials)
