"""What tuning found, as programs get it."""

from typing import Any

from ares.sim.report.figures import plain
from ares.sim.tune.tune import Tuned

SCHEMA = "ares.tuning/1"


def figures(tuned: Tuned) -> dict[str, Any]:
    """Of the front: settings and figures on training and held-out jobs. `heldOut` is of base and tuned, in full."""
    trials = tuned.found.trials
    front = [
        {"settings": trials[at].settings, "training": plain(trials[at].summary), "heldOut": plain(tuned.held[at])}
        for at in tuned.front
    ]
    return {
        "schema": SCHEMA,
        "trace": tuned.trace,
        "seed": tuned.seed,
        "objectives": [aim.name for aim in tuned.aims],
        "trainingJobs": len(tuned.split.train.jobs),
        "heldOutJobs": len(tuned.split.held.jobs),
        "splitAtS": tuned.split.at,
        "tried": tuned.found.tried,
        "completed": len(trials),
        "helps": tuned.helps,
        "gainPercent": tuned.gain * 100,
        "settings": tuned.settings,
        "training": [plain(trials[at].summary) for at in (0, tuned.chosen)],
        "heldOut": plain(tuned.figures),
        "front": front,
    }
