"""A score that is mended for one row is the score that all rows would get anew, to the last bit."""

import numpy as np
from hypothesis import given

from ares.core.schedule.scorers import SCORERS
from tests.unit.core.schedule.worlds import World, worlds


@given(worlds())
def test_rows_alone_score_as_in_whole_columns(world: World) -> None:
    count = len(world.nodes)
    whole = world.rows()
    parts = [*(world.rows(np.array([row])) for row in range(count)), world.rows(np.arange(count)[::-1])]
    for name, scorer in SCORERS.items():
        said = scorer(whole)
        expected = np.zeros(whole.table.rows) if said is None else said
        assert expected.dtype == np.float64
        for part in parts:
            alone = scorer(part)
            # In a sum, None is nothing: only a scorer that said nothing else may say it of some rows only.
            found = np.zeros(len(part)) if alone is None else alone
            assert found.tobytes() == expected[part.at].tobytes(), name


@given(worlds())
def test_scores_of_rows_that_can_take_the_ask_are_about_0_to_1(world: World) -> None:
    rows = world.rows(slice(0, len(world.nodes)))
    ask = world.ask
    takes = (rows.cpu_free >= ask.cpu_milli) & (rows.memory_free >= ask.memory_mib) & (rows.gpus_free >= ask.gpus)
    for name, scorer in SCORERS.items():
        said = scorer(rows)
        if said is not None:
            # Taints and former failures, and a copy that takes long, outweigh what other scorers say.
            least = {"affinity": -1.0, "locality": -50.0}.get(name, 0.0)
            assert ((said[takes] >= least - 1e-9) & (said[takes] <= 1.0 + 1e-9)).all(), name
