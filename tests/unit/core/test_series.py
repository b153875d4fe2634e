"""Rings of means: what they remember, what they forget, and what a gap or a clock that goes back does."""

import pytest

from ares.adapters.telemetry.series_file import decoded, encoded
from ares.core.series import RINGS, SERIES_KEPT_MAX, SeriesKey, SeriesRings

DEPTH: SeriesKey = ("ares_queue_depth", ())
T0 = 1_700_000_000.0 - 1_700_000_000.0 % 900


def filled(seconds: int, step: int = 10) -> SeriesRings:
    rings = SeriesRings()
    for at in range(0, seconds, step):
        rings.put(T0 + at, {DEPTH: float(at)})
    return rings


def test_the_finest_ring_that_reaches_back_answers() -> None:
    rings = SeriesRings()
    assert [rings.ring_for(seconds).shape.step_s for seconds in (60, 7200, 7201, 172_800, 200_000, 1e9)] == [
        10, 10, 60, 60, 900, 900,
    ]  # fmt: skip


def test_steps_are_means_of_what_fell_into_them() -> None:
    rings = filled(120, step=5)
    fine, minutes = rings.rings[0], rings.rings[1]
    assert fine.read(0, T0, T0 + 20) == [2.5, 12.5, 22.5]
    assert minutes.read(0, T0, T0 + 60) == [27.5, 87.5]


def test_what_passed_without_a_look_is_not_known() -> None:
    rings = filled(30)
    rings.put(T0 + 100, {DEPTH: 7.0})
    assert rings.rings[0].read(0, T0, T0 + 110) == [0.0, 10.0, 20.0, *[None] * 7, 7.0, None]


def test_only_so_much_is_remembered() -> None:
    ring = filled(3 * 7200).rings[0]
    assert ring.read(0, T0, T0 + 3 * 7200 - 10)[0] == 2 * 7200.0
    assert len(ring.read(0, T0, T0 + 3 * 7200 - 10)) == RINGS[0].steps


def test_after_a_long_pause_nothing_old_looks_new() -> None:
    rings = filled(7200)
    rings.put(T0 + 10 * 7200, {DEPTH: 1.0})
    assert [point for point in rings.rings[0].read(0, T0, T0 + 10 * 7200) if point is not None] == [1.0]


def test_a_clock_that_goes_back_erases_nothing() -> None:
    rings = filled(100)
    rings.put(T0, {DEPTH: 30.0})
    assert rings.rings[0].read(0, T0, T0 + 90)[:3] == [0.0, 10.0, 20.0]
    assert rings.rings[0].read(0, T0, T0 + 90)[-1] == 60.0


def test_a_clock_that_leapt_ahead_and_was_set_right_goes_on_being_recorded() -> None:
    rings = filled(100)
    rings.put(T0 + 86_400 * 365, {DEPTH: 1.0})
    for at in range(100, 200, 10):
        rings.put(T0 + at, {DEPTH: float(at)})
    for ring in rings.rings:
        assert ring.newest == int((T0 + 190) // ring.shape.step_s)
    assert rings.rings[0].read(0, T0 + 100, T0 + 190) == [float(at) for at in range(100, 200, 10)]
    # An hour ahead: what was before stays too.
    rings.put(T0 + 3800, {DEPTH: 1.0})
    rings.put(T0 + 200, {DEPTH: 200.0})
    assert rings.rings[0].read(0, T0 + 180, T0 + 210) == [180.0, 190.0, 200.0, None]


def test_series_are_bounded_and_need_not_come_together() -> None:
    rings = SeriesRings()
    rings.put(T0, {(f"s{n}", ()): 1.0 for n in range(SERIES_KEPT_MAX + 50)})
    rings.put(T0 + 10, {DEPTH: 1.0, ("s0", ()): float("nan")})
    assert len(rings.rows) == SERIES_KEPT_MAX
    assert rings.latest(("s0", ())) is None
    whole = sum(ring.values.nbytes for ring in rings.rings)
    assert whole <= 16 << 20


def test_they_outlive_the_process() -> None:
    rings = filled(7200)
    rings.put(T0 + 7200, {("ares_gpus", (("pool", "a,b"), ("state", "held"))): 4.0})
    again = decoded(encoded(rings))
    assert again.rows == rings.rows
    assert again.rings[0].read(0, T0, T0 + 7190) == rings.rings[0].read(0, T0, T0 + 7190)
    again.put(T0 + 7210, {DEPTH: 5.0})
    assert again.latest(DEPTH) == 5.0


@pytest.mark.parametrize("cut", [0, 1, 100, 5000])
def test_a_damaged_file_is_not_believed(cut: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decoded(encoded(filled(100))[:cut])


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        # A newer zip, an encrypted one, a header that is no Python, and a size beyond any memory.
        (b"PK\x01\x02\x2d\x03\x2d\x00", b"PK\x01\x02\x2d\x03\xdb\x00"),
        (b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00", b"PK\x01\x02\x2d\x03\x2d\x00\x01\x00"),
        (b"'shape': (3,)", b"'shape': (((("),
        (b"'shape': (3,), }       ", b"'shape': (9999999999,)}"),
    ],
)
def test_damaged_bytes_are_an_error_of_their_own_kind(said: bytes, instead: bytes) -> None:
    """Any other would end the server, at every start."""
    whole = encoded(filled(100))
    assert said in whole
    assert len(said) == len(instead)
    with pytest.raises(ValueError, match=r"\w"):
        decoded(whole.replace(said, instead))
