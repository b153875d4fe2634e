"""What `ares predict` and the ETA column say, as people read it."""

from datetime import datetime

import pytest

from ares.api.decisions import Eta
from ares.api.predictions import (
    Accuracy,
    HeldOut,
    Hits,
    Interval,
    JobPrediction,
    ModelView,
    PredictionReport,
    StartsJudged,
)
from ares.app.commands.predict import error_lines, job_lines
from ares.edge.cli.render.job_cells import between
from ares.model.profile import PredictionPolicy

NOON = datetime(2026, 11, 16, 12, 0).timestamp()  # noqa: DTZ001 - as the reader's clock shows
HOUR = 3600.0


@pytest.mark.parametrize(
    ("earliest", "latest", "cell"),
    [
        (HOUR, 2 * HOUR, "13:00-14:00"),
        (10.0, 2 * HOUR, "now-14:00"),
        (0.0, 20.0, "now"),
        (11 * HOUR, 13 * HOUR, "23:00-Tue 01:00"),
        (0.0, 9 * 24 * HOUR, "now-25 Nov 12:00"),
        (HOUR, None, ""),
    ],
)
def test_the_eta_of_a_pending_job(earliest: float, latest: float | None, cell: str) -> None:
    until = None if latest is None else NOON + latest
    eta = Eta(earliest=NOON + earliest, latest=until, basis="", computed_at=NOON)
    assert between(eta, NOON) == cell


def test_a_job_is_told_how_long_and_when() -> None:
    runs = Interval(seconds=720.0, low=60.0, high=7200.0, basis="7 runs of that name")
    starts = Eta(earliest=NOON + 60, latest=NOON + 600, basis="by what runs", computed_at=NOON)
    assert job_lines(JobPrediction(runtime=runs, starts=starts), NOON) == [
        "  Runs    12m, 1m to 2h: 7 runs of that name",
        "  Starts  in 1m to 10m: by what runs (worked out 0s ago)",
    ]
    assert "nobody can say" in job_lines(JobPrediction(), NOON)[0]


def test_errors_are_told_in_numbers_and_so_is_having_none() -> None:
    new = error_lines(PredictionReport(policy=PredictionPolicy(), runtimes=Accuracy(), starts=StartsJudged()))
    assert "no job has ended" in new[0]
    assert "Model      none" in new[-1]
    errors = HeldOut(jobs=5, model_mae_s=2.0, model_distance=0.2, history_mae_s=1.0, history_distance=0.1)
    model = ModelView(source="kth", trained_on=9000, trees=100, held_out=errors, used=False)
    told = "\n".join(
        error_lines(
            PredictionReport(
                policy=PredictionPolicy(),
                runtimes=Accuracy(jobs=1200, mean_absolute_error_s=300, median_relative_error=0.31, within=0.79),
                starts=StartsJudged(first=Hits(given=400, within=320), latest=Hits(given=400, within=330)),
                kinds=2345,
                model=model,
            )
        )
    )
    assert "1,200 jobs, off by 5m in the mean and by 31% in the median; 79% within" in told
    assert "80% of 400 that had to wait started within the interval, by what they were told first" in told
    assert "100 trees trained on 9,000 runs of kth; not used, as it was not better" in told
