"""When a machine's certificate is good: any order of issuing and taking back, by clocks that differ."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.access.certificates import (
    LIFE_S,
    identity,
    in_use,
    parse,
    renew_after_s,
    taken_back,
    unwelcome,
    verify,
    with_certificate,
)
from ares.core.access.tokens import denied
from ares.model.access import Principal, TokenRecord
from ares.model.node import Certificate, MachineRecord, Presented

NOW = 1_700_000_000.0
EMPTY = MachineRecord(role="node", name="n1")
TOKEN = TokenRecord(id="t", sha256="", tenant="system", role="node", expires_at=NOW + 900, single_use=True)


def shown(one: Certificate) -> Presented:
    return Presented(
        role="node", name="n1", serial=one.serial, generation=one.generation, issued_at=one.issued_at,
        ends_at=one.ends_at,
    )  # fmt: skip


def issue(machine: MachineRecord, serial: str, now: float, **more: str) -> tuple[MachineRecord, Certificate]:
    at = int(now)
    fresh = Certificate(
        serial=serial, generation=machine.generation, key_sha256=more.get("key", "k"), issued_at=at,
        ends_at=at + LIFE_S, token=more.get("token", ""),
    )  # fmt: skip
    return with_certificate(machine, fresh, more.get("presented", ""), now), fresh


@given(st.lists(st.tuples(st.sampled_from(["join", "renew", "revoke"]), st.floats(-300, 300)), max_size=30))
def test_what_was_taken_back_stays_so_and_what_came_after_is_good(steps: list[tuple[str, float]]) -> None:
    """Each step by a replica whose clock is up to five minutes off."""
    machine, good, bad, latest = EMPTY, list[Certificate](), list[Certificate](), ""
    for number, (step, skew) in enumerate(steps):
        if step == "revoke":
            machine, good, bad = taken_back(machine, "root", NOW + skew), [], bad + good
        else:
            if step == "join" and in_use(machine, NOW + skew):
                machine, good, bad = taken_back(machine, "join", NOW + skew), [], bad + good
            machine, fresh = issue(machine, str(number), NOW + skew, presented=latest)
            good.append(fresh)
            latest = fresh.serial
        for one in good:
            assert isinstance(verify(machine, shown(one), NOW), Principal)
        for one in bad:
            assert verify(machine, shown(one), NOW) == denied("revoked")
    assert len(machine.certificates) <= 22


def test_a_certificate_ends_and_one_whose_record_is_lost_does_not() -> None:
    machine, one = issue(EMPTY, "a", NOW)
    assert isinstance(verify(None, shown(one), NOW), Principal)
    assert verify(machine, shown(one), one.ends_at) == denied("expired")
    assert not in_use(machine, one.ends_at)
    assert renew_after_s(one.issued_at, one.ends_at, NOW) == LIFE_S * 2 / 3
    assert renew_after_s(one.issued_at, one.ends_at, one.ends_at + 1) == 0.0


def test_a_restored_record_takes_back_what_was_issued_after_the_backup() -> None:
    backup, _ = issue(EMPTY, "a", NOW)
    later, one = issue(taken_back(backup, "root", NOW + 60), "b", NOW + 61)
    assert isinstance(verify(later, shown(one), NOW + 120), Principal)
    assert isinstance(verify(backup, shown(one), NOW + 120), Principal), "a restore locks nobody out"
    assert verify(taken_back(backup, "root", NOW + 120), shown(one), NOW + 121) == denied("revoked")


def test_whom_a_join_token_admits() -> None:
    machine, _ = issue(EMPTY, "a", NOW, key="mine", token="t")
    spent = replace(TOKEN, revoked=True, node="n1")
    for token, known, key, why in (
        (TOKEN, EMPTY, "k", ""),
        (TOKEN, machine, "k", "taken"),
        (replace(TOKEN, node="n1"), machine, "k", ""),
        (replace(TOKEN, node="n2"), EMPTY, "k", "name"),
        (replace(TOKEN, expires_at=NOW), EMPTY, "k", "expired"),
        (spent, machine, "mine", ""),
        (spent, machine, "other", "revoked"),
        (replace(spent, id="u"), machine, "mine", "revoked"),
        (spent, taken_back(machine, "root", NOW), "mine", "revoked"),
        (replace(spent, expires_at=NOW), machine, "mine", "expired"),
        (TOKEN, replace(EMPTY, name="../n1"), "k", "malformed"),
    ):
        assert unwelcome(token, known, key, NOW) == why, (token, known, key)


@given(st.text(max_size=40))
def test_an_identity_is_read_back_or_nothing(text: str) -> None:
    assert parse(identity("node", "gpu-07")) == ("node", "gpu-07")
    found = parse(identity("cluster", text))
    assert found is None or found == ("cluster", text)
    if found is not None:
        assert "/" not in text
        assert text.isascii()
    assert parse(text) is None
