"""Forty everyday tasks, run as they are written: each works, or is refused with the right way named."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.edge.cli import hints
from tests.everyday import Person
from tests.images import Image

ROOT = Path(__file__).resolve().parents[2]
TASKS: list[dict[str, Any]] = yaml.safe_load((ROOT / "scenarios" / "everyday.yaml").read_text())
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["root", "ordinary"])
def person(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with Person(tmp_path_factory.mktemp(request.param), ordinary=request.param == "ordinary") as person:
        yield person


@pytest.mark.parametrize("task", TASKS, ids=[task["task"] for task in TASKS])
def test_task(person: Person, task: dict[str, Any]) -> None:
    done = person.run(task["here"])
    said = done.stdout + done.stderr
    assert done.returncode == task.get("code", 0), said
    assert not [part for part in task["out"] if part not in said], said
    if "typed" in task:
        habit = person.run(f"ares {task['typed']}")
        assert (habit.returncode, task["hint"] in habit.stderr) == (2, True), habit.stderr


def test_a_container_image_of_ones_own(person: Person) -> None:
    """Also where the agent has no right of root: the same command, the same root, nothing left of it."""
    folder = person.home / "image"
    folder.mkdir()
    Image(config={"Cmd": ["sh", "-c", "echo $HOME; touch /bin/mine && ls /bin/mine"]}).docker_archive(
        folder / "app.tar"
    )
    for path in (folder, folder / "app.tar"):
        path.chmod(0o777)
    done = person.run("ares submit --follow --image docker-archive:app.tar --workdir none", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "/root\n/bin/mine\n"), done.stderr
    again = person.run("ares submit --follow --image docker-archive:app.tar --workdir none -- ls /bin/mine", cwd=folder)
    assert (again.returncode, "nothing new" in again.stderr) == (1, True), again.stderr
    assert "can run in container images" in person.run("ares doctor").stdout


def test_there_are_forty_of_four_tools() -> None:
    assert len(TASKS) == 40
    assert {task["from"] for task in TASKS} == {"slurm", "kubernetes", "skypilot", "dstack"}
    assert len({task["task"] for task in TASKS}) == 40


def test_hints_name_commands_and_options_that_exist() -> None:
    from ares.app.main import COMMANDS
    from ares.edge.cli.commands.submit import submit

    options = {name for option in submit.params for name in (*option.opts, *option.secondary_opts)}
    for meant in (*hints.COMMANDS.values(), *hints.PHRASES.values()):
        assert meant.split()[1] in COMMANDS, meant
    assert not [word for word in hints.COMMANDS if word in COMMANDS], "a hint for a command that there is"
    for meant in hints.SUBMIT.values():
        word = meant.split()[0].rstrip(",;")
        assert not word.startswith("--") or word in options or word == "--:", meant
    assert not [option for option in hints.SUBMIT if option in options]
