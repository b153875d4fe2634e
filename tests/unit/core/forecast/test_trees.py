"""A trained model as plain arrays: walked to the right leaf, refused when a walk would not end, used when better."""

import subprocess
import sys
from math import log, nan

import msgspec
import pytest

from ares.api.predictions import HeldOut
from ares.core.forecast.predictor import Predictor
from ares.core.forecast.trees import FEATURES, BadModel, Forest, Tree, TreeModel
from ares.model.job import JobSpec

BETTER = HeldOut(jobs=9, model_mae_s=1.0, model_distance=0.1, history_mae_s=2.0, history_distance=0.2)
# Short limits: 10 s; long ones 1000 s, unless the user's last run (feature 16) was short; nothing known: 100 s.
TREE = Tree(
    feature=(0, -1, FEATURES.index("user_latest"), -1, -1),
    threshold=(log(600.0), 0.0, log(60.0), 0.0, 0.0),
    left=(1, 0, 3, 0, 0),
    right=(2, 0, 4, 0, 0),
    value=(0.0, log(10.0), 0.0, log(20.0), log(1000.0)),
    unknown_left=(0, 0, 0, 0, 0),
)
MODEL = TreeModel(trees=(TREE,), base=0.0, features=FEATURES, held_out=BETTER)


def row(**told: float) -> list[float]:
    return [told.get(name, nan) for name in FEATURES]


def test_every_leaf_is_reached_as_the_arrays_say() -> None:
    forest = Forest(MODEL)
    said = [
        forest.seconds(one)
        for one in (
            row(limit=log(500.0)),
            row(limit=log(900.0), user_latest=log(30.0)),
            row(limit=log(900.0), user_latest=log(300.0)),
            row(limit=log(900.0)),
            row(),
        )
    ]
    assert said == pytest.approx([10.0, 20.0, 1000.0, 1000.0, 1000.0])
    twice = Forest(msgspec.structs.replace(MODEL, trees=(TREE, TREE), base=1.0))
    assert twice.log_runtime(row(limit=0.0)) == pytest.approx(1.0 + 2 * log(10.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": (0, 0, 3, 0, 0)}, "node 0: child 0 must come after it"),
        ({"right": (9, 0, 4, 0, 0)}, "child 9 must come after it and exist"),
        ({"value": (0.0,)}, "columns differ in length"),
        ({"feature": (99, -1, 1, -1, -1)}, "feature 99 of"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, tuple[int, ...]], message: str) -> None:
    bad = msgspec.structs.replace(TREE, **change)
    with pytest.raises(BadModel, match=message):
        Forest(msgspec.structs.replace(MODEL, trees=(bad,)))


def test_a_model_of_other_features_or_another_format_is_refused() -> None:
    with pytest.raises(BadModel, match="other features"):
        Forest(msgspec.structs.replace(MODEL, features=("moon", *FEATURES[1:])))
    with pytest.raises(BadModel, match="format 9"):
        Forest(msgspec.structs.replace(MODEL, format=9))


def test_an_installed_model_speaks_instead_of_like_jobs() -> None:
    predictor, spec = Predictor(), JobSpec(command=("x",), time_limit_s=500.0)
    predictor.learn(spec, "a/b/c", 77.0)
    predictor.forest = Forest(MODEL)
    found = predictor.estimate(spec, "a/b/c")
    assert found is not None
    assert found.seconds == pytest.approx(10.0)
    assert "a model was trained on" in found.basis


def test_better_is_who_is_so_by_both_measures() -> None:
    assert BETTER.better
    assert not msgspec.structs.replace(BETTER, model_mae_s=3.0).better
    assert not msgspec.structs.replace(BETTER, model_distance=0.3).better


def test_the_control_plane_never_imports_what_trains() -> None:
    """Nor does the command line at its start."""
    code = (
        "import sys, ares.app.server, ares.app.wiring, ares.app.main\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('sklearn', 'scipy') or n.startswith('ares.sim')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
