"""The installation's authority for machine certificates: its files, and the certificate of the agents' port."""

import time
from pathlib import Path
from typing import Final

from ares.adapters.certificates import NoAuthority, X509Issuer, make_authority
from ares.app import connection_file
from ares.app.config import AgentsConfig, Config, ConfigError
from ares.core import keys
from ares.core.access.certificates import LIFE_S, renew_after_s
from ares.core.net import is_loopback
from ares.edge.grpc.listening import Tls
from ares.ports.store import Store

# Lifetime of a control plane's certificate, which it signs itself and renews at a handshake.
_SERVING_LIFE_S: Final = 7 * LIFE_S


def has_tls(agents: AgentsConfig) -> bool:
    """Whether agents prove themselves by certificates: everywhere but on this machine, and there on request."""
    return agents.tls == "on" or not is_loopback(agents.host)


async def authority_of(config: Config, store: Store) -> X509Issuer | None:
    """None where agents have tokens. The first start of an installation makes the authority."""
    if not has_tls(config.agents):
        return None
    certificate, key = authority_files(config)
    own = not config.agents.ca_cert
    if own and not certificate.exists() and await store.get(keys.AUTHORITY) is None:
        _make(config.cluster, certificate, key)
    try:
        return X509Issuer.of(certificate.read_text(), key.read_text())
    except (OSError, NoAuthority, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the authority for machines' certificates cannot be used ({certificate}, {key}): {error}",
            "give it the files of the installation: agents.ca_cert and agents.ca_key, or keys/agents-ca.pem and "
            "keys/agents-ca.key from the home directory of a server that has them",
        ) from error


class Serving:
    """The certificate of the agents' port, renewed in time."""

    def __init__(self, authority: X509Issuer) -> None:
        self._authority = authority
        self._renew_at = 0.0
        self._now = Tls(b"", b"", authority.authorities.encode())

    def __call__(self) -> Tls:
        now = time.time()
        if now >= self._renew_at:
            issued_at, ends_at = int(now), int(now) + _SERVING_LIFE_S
            pair = self._authority.serving(issued_at, ends_at)
            self._now = self._now._replace(certificate=pair.certificate.encode(), key=pair.key.encode())
            self._renew_at = now + renew_after_s(issued_at, ends_at, now)
        return self._now


def authority_files(config: Config) -> tuple[Path, Path]:
    """Where its certificates and its key are."""
    if config.agents.ca_cert:
        return Path(config.agents.ca_cert), Path(config.agents.ca_key)
    folder = config.home_path / "keys"
    return folder / "agents-ca.pem", folder / "agents-ca.key"


def _make(installation: str, certificate: Path, key: Path) -> None:
    """The key first: a certificate without it would look like an authority that was lost."""
    made = make_authority(installation, int(time.time()))
    key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection_file.replace(key, made.key.encode())
    connection_file.replace(certificate, made.certificate.encode(), 0o644)
