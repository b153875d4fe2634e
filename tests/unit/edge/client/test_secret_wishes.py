"""Secrets of a job as people write them, and what may leave the client."""

import msgspec
import pytest

from ares.edge.client.ask import job_spec
from ares.edge.client.calls import secrets
from ares.edge.client.errors import InvalidSpec
from ares.model.secret import Secret, SecretRef


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("db-password", SecretRef(name="db-password", env="DB_PASSWORD")),
        ("a.b-c", SecretRef(name="a.b-c", env="A_B_C")),
        ("db-password:PGPASSWORD", SecretRef(name="db-password", env="PGPASSWORD")),
        ("tls-key:file=server.pem", SecretRef(name="tls-key", file="server.pem")),
        ({"name": "tls-key", "file": "server.pem"}, SecretRef(name="tls-key", file="server.pem")),
    ],
)
def test_ways_to_write_one(written: object, meant: SecretRef) -> None:
    assert job_spec(command=["true"], secrets=[written]).secrets == (meant,)
    if isinstance(written, str):
        assert job_spec(command=["true"], secrets=written).secrets == (meant,)


NONE: tuple[object, ...] = (
    "", ":", "name:", "name:file=", "name:file=../x", "name:file=/etc/x", "name:1X", "na/me", "../x",
    {"name": "x", "as": "y"},
)  # fmt: skip


@pytest.mark.parametrize("written", NONE)
def test_what_is_none(written: object) -> None:
    with pytest.raises(InvalidSpec):
        job_spec(command=["true"], secrets=[written])


def test_a_mapping_is_told_how() -> None:
    with pytest.raises(InvalidSpec, match="are a list"):
        job_spec(command=["true"], secrets={"db-password": "PGPASSWORD"})


@pytest.mark.parametrize("value", ["väl\n", "väl\n".encode(), Secret("väl\n".encode())])
def test_a_value_goes_out_byte_for_byte(value: str | bytes | Secret) -> None:
    request = secrets.set_secret("a b", value, 0).request
    assert (request.method, request.path) == ("PUT", "/v1/secrets/a%20b")
    assert msgspec.json.decode(request.body or b"") == {"base64": "dsOkbAo=", "expectedVersion": 0}
