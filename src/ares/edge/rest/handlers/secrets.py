"""A tenant's secrets. Values only ever come in: no route gives one out."""

import base64
import binascii
from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.secrets import SecretView
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.model.base import Record
from ares.model.secret import SECRET_BYTES_MAX, SHOWN, Secret

_WRITE_ONLY = {"writeOnly": True}


class SecretBody(Record, frozen=True):
    """A value, as text or in base64; exactly one of the two."""

    value: Annotated[str, Meta(max_length=SECRET_BYTES_MAX, extra_json_schema=_WRITE_ONLY)] | None = None
    base64: Annotated[str, Meta(max_length=2 * SECRET_BYTES_MAX, extra_json_schema=_WRITE_ONLY)] | None = None
    # The version it must still have; 0: there is none of this name yet.
    expected_version: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None

    def __repr__(self) -> str:
        return f"SecretBody({SHOWN})"


class SecretList(Record, frozen=True):
    """By name."""

    secrets: tuple[SecretView, ...]


async def list_secrets(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(SecretList(secrets=await call.edge.services.secrets.list(call.who)))


async def put_secret(call: RequestCall[NoQuery, SecretBody]) -> ASGIApp:
    outcome = await call.edge.services.secrets.put(
        call.who, call.path["secret"], _value(call.body), call.body.expected_version
    )
    return answer(outcome)


async def delete_secret(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return empty(await call.edge.services.secrets.delete(call.who, call.path["secret"]))


async def rotate_key(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.secrets.rotate_key(call.who))


def _value(body: SecretBody) -> Secret:
    """Nothing that is said about it may quote it."""
    if (body.value is None) == (body.base64 is None):
        raise Problem("invalid", detail="exactly one of value and base64 is needed")
    try:
        if body.base64 is not None:
            return Secret(base64.b64decode(body.base64, validate=True))
        return Secret((body.value or "").encode())
    except (binascii.Error, ValueError):
        # Without its cause: that names the bytes.
        raise Problem("invalid", detail="the value is not valid base64 or not valid Unicode") from None
