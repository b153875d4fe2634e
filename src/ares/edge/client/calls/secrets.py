"""Requests about secrets, as values like those in `calls`; values go out, and never come back."""

import base64

import msgspec

from ares.api.secrets import KeyRotation, SecretView
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.secret import Secret


def secrets() -> Call[tuple[SecretView, ...]]:
    return Call(Request("GET", "/v1/secrets"), tuple[SecretView, ...], "secrets")


def set_secret(name: str, value: str | bytes | Secret, expected_version: int | None = None) -> Call[SecretView]:
    plain = value.reveal() if isinstance(value, Secret) else value.encode() if isinstance(value, str) else value
    body: dict[str, object] = {"base64": base64.b64encode(plain).decode()}
    if expected_version is not None:
        body["expectedVersion"] = expected_version
    return Call(Request("PUT", _path(name), (), msgspec.json.encode(body), JSON), SecretView)


def delete_secret(name: str) -> Call[None]:
    return Call(Request("DELETE", _path(name)), None)


def rotate_key() -> Call[KeyRotation]:
    # Sent twice it would make two keys.
    return Call(Request("POST", "/v1/secret-keys", repeatable=False), KeyRotation)


def _path(name: str) -> str:
    return f"/v1/secrets/{part(name)}"


class AsyncSecretMethods(AsyncSends):
    """Secrets, of the asynchronous client."""

    async def secrets(self) -> tuple[SecretView, ...]:
        """The tenant's secrets, by name; never their values."""
        return await self.send(secrets())

    async def set_secret(
        self, name: str, value: str | bytes | Secret, *, expected_version: int | None = None
    ) -> SecretView:
        """Makes a secret, or gives it a new value. Version 0 expects that there is none."""
        return await self.send(set_secret(name, value, expected_version))

    async def delete_secret(self, name: str) -> None:
        """Attempts that need it do not start any more."""
        await self.send(delete_secret(name))


class SecretMethods(Sends):
    """Secrets, of the blocking client, generated."""

    def secrets(self) -> tuple[SecretView, ...]:
        """The tenant's secrets, by name; never their values."""
        return self.send(secrets())

    def set_secret(self, name: str, value: str | bytes | Secret, *, expected_version: int | None = None) -> SecretView:
        """Makes a secret, or gives it a new value. Version 0 expects that there is none."""
        return self.send(set_secret(name, value, expected_version))

    def delete_secret(self, name: str) -> None:
        """Attempts that need it do not start any more."""
        self.send(delete_secret(name))
