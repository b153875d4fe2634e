"""Identifiers of jobs: random, and in the order of their batch."""

import random
import string

from ares.control.state.ids import job_id
from ares.core import keys


class _Drawn:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uniform(self) -> float:
        return self._random.random()

    def token(self, n_bytes: int) -> bytes:
        return self._random.randbytes(n_bytes)


NOW = 1.8e9


def test_jobs_of_a_batch_lie_in_the_store_in_their_order() -> None:
    rng, count = _Drawn(1), 1000
    # Drafting them takes a while: the time in their ids moves on.
    ids = [job_id(rng, NOW + number / 4000, number, count) for number in range(count)]
    written = [keys.state("t", job) for job in ids]
    assert written == sorted(written)
    assert len(set(ids)) == count
    assert all(len(job) == keys.ID_RANDOM_CHARS + keys.ID_TIME_CHARS for job in ids)
    assert all(keys.job_of(key) == job for key, job in zip(written, ids, strict=True))


def test_ids_of_a_batch_are_as_random_as_their_part_allows() -> None:
    first, second = ([job_id(_Drawn(seed), NOW, 0, 32) for seed in seeds] for seeds in (range(200), range(200, 400)))
    assert len({*first, *second}) == 400
    # The first of 32 parts: the first character is the same, all others are drawn.
    assert {job[0] for job in first} == {"0"}
    assert {job[1] for job in first} > set(string.digits)


def test_a_job_that_comes_alone_has_all_bits_drawn() -> None:
    assert len({job_id(_Drawn(seed), NOW)[0] for seed in range(400)}) == 32
