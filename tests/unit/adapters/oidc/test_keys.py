"""Keys of a provider: fetched, kept while it is away, and given up when it gives them up."""

from ares.adapters.oidc.keys import FLOOR_S, FRESH_S, JwksKeys
from ares.ports.provider import Checked
from tests.clocks import ManualClock
from tests.oidc import Idp, running


async def settled(keys: JwksKeys) -> None:
    """A fetch in the background has ended."""
    held = keys._held["corp"].fetching  # pyright: ignore[reportPrivateUsage]
    assert held is not None
    await held


async def check(keys: JwksKeys, idp: Idp, key: str, alg: str, text: str = "") -> Checked:
    return await keys.verify(idp.provider, text or idp.token(key, alg), alg, key)


async def test_a_key_that_is_taken_back_is_trusted_no_longer() -> None:
    clock = ManualClock()
    keys = JwksKeys(clock)
    with running() as idp:
        token = idp.token("ec", "ES256")
        assert await check(keys, idp, "ec", "ES256", token) == "good"
        # The same text is good again, another with its signature is not.
        assert await check(keys, idp, "ec", "ES256", token) == "good"
        forged = f"{idp.token('ec', 'ES256', sub='mallory').rpartition('.')[0]}.{token.rpartition('.')[2]}"
        assert await check(keys, idp, "ec", "ES256", forged) == "signature"
        del idp.keys["ec"]
        await clock.advance(FRESH_S + 1)
        # Nobody waits for the provider; who comes after it has answered is told.
        assert await check(keys, idp, "ec", "ES256", token) == "good"
        await settled(keys)
        assert await check(keys, idp, "ec", "ES256", token) == "kid"
        assert await check(keys, idp, "rsa", "RS256") == "good"
        # Away, it takes nothing back.
        idp.up = False
        await clock.advance(FRESH_S + 1)
        assert await check(keys, idp, "rsa", "RS256") == "good"
        await settled(keys)
        assert await check(keys, idp, "rsa", "RS256") == "good"


async def test_a_provider_that_was_never_there_is_asked_again_after_a_while() -> None:
    clock = ManualClock()
    keys = JwksKeys(clock)
    with running() as idp:
        idp.up = False
        assert [await check(keys, idp, "rsa", "RS256") for _ in range(3)] == ["keys"] * 3
        assert idp.asked["/keys"] == 1
        idp.up = True
        await clock.advance(FLOOR_S + 1)
        assert await check(keys, idp, "rsa", "RS256") == "good"
