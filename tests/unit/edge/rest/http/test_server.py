"""Where the server may listen."""

from pathlib import Path

import pytest

from ares.edge.rest.api import ApiSettings
from ares.edge.rest.http.server import BindRefused, refuse_open_bind

PEM = Path("x.pem")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert refuse_open_bind(ApiSettings(host=host)) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "ares.example", "", "localhost.evil"])
def test_anything_else_does(host: str) -> None:
    """N4."""
    with pytest.raises(BindRefused, match="reachable from outside"):
        refuse_open_bind(ApiSettings(host=host))
    assert refuse_open_bind(ApiSettings(host=host, tls_cert=PEM, tls_key=PEM)) is None


def test_half_of_tls_is_none() -> None:
    for settings in (ApiSettings(tls_cert=PEM), ApiSettings(tls_key=PEM)):
        with pytest.raises(BindRefused, match="both"):
            refuse_open_bind(settings)
