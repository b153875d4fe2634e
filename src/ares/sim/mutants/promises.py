"""Bugs in what waiting jobs are promised: seen in replays of small traces, by the checker of decisions."""
# pyright: reportPrivateUsage=false

from ares.api.decisions import Promise
from ares.core.forecast import predictor
from ares.core.forecast.estimate import Estimate
from ares.core.forecast.predicted import PastRuns
from ares.core.forecast.predictor import _as_stated
from ares.core.schedule.actions.backfill import BackfillPass
from ares.model.job import JobSpec
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace
from ares.sim.mutants.replays import KEPT, ORDER


def _by_median(spec: JobSpec, said: Estimate | None, past: PastRuns | None) -> float:
    return _as_stated(spec, said) if past is None else past.seconds


def _by_history(spec: JobSpec, said: Estimate | None, past: PastRuns | None) -> float:
    """Also where the job states more, by its like."""
    return _as_stated(spec, said) if past is None else past.upper


def _from_its_new_start(self: BackfillPass, start: float, told: Promise | None) -> float:
    return start


MUTANTS = {
    "promise-by-median": Mutant(
        "promises go by what half of like jobs took",
        (KEPT,),
        replace(predictor, "_longest", _by_median),
        trace="one-in-ten-runs-long",
    ),
    "slipped-promise-not-drained": Mutant(
        "once a promise slips, its room is open to others until the new one",
        (ORDER,),
        replace(BackfillPass, "_held_from", _from_its_new_start),
        trace="runs-on",
    ),
    "stated-time-shortened": Mutant(
        "a stated run time is planned shorter by other jobs' history",
        (KEPT,),
        replace(predictor, "_longest", _by_history),
        trace="states-more-than-its-like",
    ),
}
