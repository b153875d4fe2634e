"""What a helper is told: the plan of its runtime and the world of its gang, and how texts of a plan are filled in."""

import json
import os
import re
import sys
from typing import Any, NamedTuple

_TOKEN = re.compile(r"@[A-Z]+[0-9]*@")
# How `helper.main` and its parts are started: by the interpreter of Ares, apart from the job's own Python.
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ares.agent.helper.{0} import main; main()"
ABOVE_ARES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def command_of(part: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _BOOT.format(part), ABOVE_ARES, *arguments]


class HelperWorld(NamedTuple):
    """The ranks that take part now, as ARES_WORLD_FILE has them; of a job without a gang, itself."""

    generation: int = 0
    place: int = 0
    # Rank numbers and addresses, in the order of places.
    ranks: tuple[int, ...] = (0,)
    addresses: tuple[str, ...] = ("127.0.0.1",)
    port: int = 0

    @property
    def size(self) -> int:
        return len(self.ranks)


class HelperOrders:
    """The plan as the agent wrote it. `path` is that file's."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            told: dict[str, Any] = json.load(file)
        self.path = path
        self.plan: dict[str, Any] = told["plan"]
        self.command: list[str] = told["command"]
        self.key: str = told["key"]
        # Where its own files are.
        self.folder: str = told["folder"]
        self.meet_s: float = told["meetS"]
        # So long a rank whose program failed waits for a smaller world.
        self.elastic_s: float = told["elasticS"]

    @property
    def ends(self) -> str:
        """The pipe by which started processes tell of their ends."""
        return f"{self.folder}/ends"

    @property
    def note(self) -> str:
        return f"{self.folder}/ended.json"

    def world(self) -> HelperWorld:
        path = os.environ.get("ARES_WORLD_FILE", "")
        if not path:
            return HelperWorld()
        with open(path, encoding="utf-8") as file:
            told: dict[str, Any] = json.load(file)
        peers = told["peers"]
        return HelperWorld(
            told["generation"],
            told["rank"],
            tuple(peer["rank"] for peer in peers),
            tuple(peer["address"] or "127.0.0.1" for peer in peers),
            told["masterPort"],
        )


def filled(texts: "list[str]", known: "dict[str, str]") -> list[str]:
    """The texts of a plan with what stands for its tokens."""
    return [_TOKEN.sub(lambda match: known.get(match[0], match[0]), text) for text in texts]
