"""The keys of identity providers: whether one of them made a signature."""

from typing import Literal, Protocol

from ares.model.provider import Provider

# "kid": it has no such key; "keys": its keys were never to be had.
Checked = Literal["good", "signature", "kid", "keys"]


class ProviderKeys(Protocol):
    """Goes by keys it has fetched before while a provider is away."""

    async def verify(self, provider: Provider, text: str, algorithm: str, key_id: str) -> Checked: ...
