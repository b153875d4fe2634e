"""The keys of identity providers: whether one of them made a signature."""

from typing import Literal, Protocol

from ares.model.access import Provider

# "kid": the provider has no such key; "keys": its keys could never be fetched.
Checked = Literal["good", "signature", "kid", "keys"]


class ProviderKeys(Protocol):
    """Uses keys that were fetched before while a provider is away."""

    async def verify(self, provider: Provider, text: str, algorithm: str, key_id: str) -> Checked: ...
