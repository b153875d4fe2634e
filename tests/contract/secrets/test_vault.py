"""What every vault must do, whether its keys are in a file or in memory."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from ares.adapters.secrets import EnvelopeVault, FileRing, MemoryRing
from ares.model.secret import Secret
from ares.ports.secrets import Sealed, Tampered, UnknownKey, VaultError

VALUE = Secret(b"hunter2-canary")
BOUND = b"acme/db-password/1"


@pytest.fixture(params=["file", "memory"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> EnvelopeVault:
    rings: dict[str, Callable[[], FileRing | MemoryRing]] = {
        "file": lambda: FileRing(tmp_path / "keys" / "secrets.key"), "memory": MemoryRing,
    }  # fmt: skip
    return EnvelopeVault(rings[request.param]())


def test_what_is_sealed_opens_and_shows_nothing(vault: EnvelopeVault) -> None:
    assert vault.newest() == ""
    sealed, again = vault.seal(VALUE, BOUND), vault.seal(VALUE, BOUND)
    assert vault.open(sealed, BOUND) == VALUE
    assert (sealed.key_id, vault.holds(sealed.key_id)) == (vault.newest(), True)
    assert VALUE.reveal() not in b"".join((sealed.ciphertext, sealed.nonce, sealed.wrapped))
    # Neither key nor nonce is used twice.
    assert {sealed.ciphertext, sealed.nonce, sealed.wrapped}.isdisjoint({again.ciphertext, again.nonce, again.wrapped})


@pytest.mark.parametrize("other", [b"acme/db-password/2", b"acme/other/1", b"evil/db-password/1", b""])
def test_it_opens_only_for_what_it_was_sealed_for(vault: EnvelopeVault, other: bytes) -> None:
    with pytest.raises(Tampered):
        vault.open(vault.seal(VALUE, BOUND), other)


@pytest.mark.parametrize("field", ["ciphertext", "nonce", "wrapped"])
def test_a_changed_bit_is_noticed_everywhere(vault: EnvelopeVault, field: str) -> None:
    sealed = vault.seal(VALUE, BOUND)
    for at in range(len(getattr(sealed, field))):
        bytes_ = bytearray(getattr(sealed, field))
        bytes_[at] ^= 1
        with pytest.raises(Tampered):
            vault.open(msgspec.structs.replace(sealed, **{field: bytes(bytes_)}), BOUND)


def test_parts_of_two_values_do_not_fit_together(vault: EnvelopeVault) -> None:
    one, two = vault.seal(VALUE, BOUND), vault.seal(Secret(b"another value!"), BOUND)
    with pytest.raises(Tampered):
        vault.open(Sealed(one.ciphertext, one.nonce, two.wrapped, one.key_id), BOUND)


def test_a_new_key_takes_over_and_the_old_one_still_opens(vault: EnvelopeVault) -> None:
    old = vault.seal(VALUE, BOUND)
    newest = vault.renew()
    assert newest == vault.newest() != old.key_id
    assert vault.open(old, BOUND) == VALUE
    rewrapped = vault.rewrap(old, BOUND)
    assert (rewrapped.key_id, rewrapped.ciphertext) == (newest, old.ciphertext)
    assert vault.open(rewrapped, BOUND) == VALUE
    with pytest.raises(Tampered):
        # Calling it the new key's does not make it so.
        vault.open(msgspec.structs.replace(old, key_id=newest), BOUND)


def test_a_key_of_somebody_else_is_named(vault: EnvelopeVault) -> None:
    foreign = EnvelopeVault(MemoryRing()).seal(VALUE, BOUND)
    assert not vault.holds(foreign.key_id)
    with pytest.raises(UnknownKey, match=foreign.key_id):
        vault.open(foreign, BOUND)


def test_servers_that_share_the_file_see_each_others_keys(tmp_path: Path) -> None:
    one, two = (EnvelopeVault(FileRing(tmp_path / "secrets.key")) for _ in range(2))
    assert two.newest() == ""
    sealed = one.seal(VALUE, BOUND)
    assert two.open(sealed, BOUND) == VALUE
    with ThreadPoolExecutor(8) as pool:
        made = [task.result() for task in [pool.submit(vault.renew) for vault in (one, two) * 8]]
    assert all(vault.holds(key) for vault in (one, two) for key in made), "a key was lost"
    assert os.stat(tmp_path / "secrets.key").st_mode & 0o777 == 0o600


def test_a_file_that_others_may_read_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secrets.key"
    EnvelopeVault(FileRing(path)).seal(VALUE, BOUND)
    path.chmod(0o644)
    with pytest.raises(VaultError, match="chmod 600"):
        EnvelopeVault(FileRing(path)).newest()
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(VaultError, match="damaged"):
        EnvelopeVault(FileRing(path)).newest()
    link = tmp_path / "link.key"
    link.symlink_to(path)
    with pytest.raises(VaultError, match="cannot be read"):
        EnvelopeVault(FileRing(link)).newest()


def test_a_secret_does_not_print_nor_encode() -> None:
    for text in (repr(VALUE), str(VALUE), f"{VALUE}", f"{[VALUE]}", f"{VALUE:>5}"):
        assert "hunter2" not in text
    for encode in (msgspec.json.encode, msgspec.msgpack.encode):
        with pytest.raises(TypeError):
            encode({"value": VALUE})
