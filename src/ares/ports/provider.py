"""Identity providers: whether a key of theirs made a signature, and what they give for the code of a login."""

from typing import Literal, Protocol

from ares.model.access import Provider

# "kid": the provider has no such key; "keys": its keys could never be fetched.
Checked = Literal["good", "signature", "kid", "keys"]


class ProviderKeys(Protocol):
    """Uses keys that were fetched before while a provider is away."""

    async def verify(self, provider: Provider, text: str, algorithm: str, key_id: str) -> Checked: ...


class CodeRefused(Exception):
    """The provider gives nothing for this code."""


class ProviderAway(Exception):
    """The provider did not answer, or not in a way that can be understood; or too many ask it at once."""


class ProviderCodes(Protocol):
    async def redeem(self, provider: Provider, code: str, verifier: str, redirect_url: str) -> str:
        """The token of the person who logged in; nothing of it was checked. Raises CodeRefused, ProviderAway."""
        ...
