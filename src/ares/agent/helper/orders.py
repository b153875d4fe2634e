"""What a helper is told: the plan of its runtime and the world of its gang, and how texts of a plan are filled in.

Imports little: the launcher is begun before the rest of the helper is there."""

import json
import os
import sys
from typing import Any, NamedTuple

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
        """The pipe by which started processes tell of their ends, and launchers ask for commands on other ranks."""
        return f"{self.folder}/ends"

    @property
    def note(self) -> str:
        return f"{self.folder}/ended.json"

    @property
    def ranks(self) -> str:
        """On the first rank: a line for each other rank that has come, with its number, address and own ports."""
        return f"{self.folder}/ranks"

    def asked(self, place: int) -> str:
        """The file with the command that a launcher asks for on the rank at that place."""
        return f"{self.folder}/call-{place}"

    def write_ranks(self, world: HelperWorld, ports: "dict[int, list[int]]") -> None:
        lines = [
            " ".join((str(world.ranks[place]), world.addresses[place], *map(str, ports.get(place, ()))))
            for place in range(1, world.size)
        ]
        with open(self.ranks, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def command_for(self, place: int) -> str:
        with open(self.asked(place), encoding="utf-8", errors="replace") as file:
            return file.read()

    def answer(self, place: int) -> str:
        """The pipe by which the launcher is told how the command ended."""
        return f"{self.folder}/called-{place}"

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


class HelperScene(NamedTuple):
    """What texts of the plan stand for on this rank, in this world."""

    orders: HelperOrders
    world: HelperWorld
    # Its own ports, and those of the first rank.
    ports: "list[int]"
    first: "list[int]"

    def known(self) -> dict[str, str]:
        world, procs = self.world, self.orders.plan["procs"]
        hosts = ("localhost", *(f"ares-rank-{place}" for place in range(1, world.size)))
        named = {
            "PLACE": str(world.place),
            "SIZE": str(world.size),
            "ADDRESS": world.addresses[0],
            "OWN": world.addresses[world.place],
            "PORT": str(world.port),
            "HOSTS": ",".join(f"{host}:{procs}" for host in hosts),
            "PROCS": str(procs * world.size),
            "WATCH": "ares-watch",
            "FOLDER": self.orders.folder,
        }
        for name, ports in (("PORT", self.ports), ("FIRST", self.first)):
            named |= {f"{name}{number}": str(port) for number, port in enumerate(ports, start=1)}
        return named

    def texts(self, of: "list[str]", each: int = 0) -> list[str]:
        """`each`: the port of the process that they are for."""
        return filled(of, {**self.known(), "EACH": str(each)})

    def environment(self) -> dict[str, str]:
        """For all that is started here. Programs meet on the first rank's first own port where it has one."""
        world, plan, folder = self.world, self.orders.plan, self.orders.folder
        meeting = f"{world.size} {world.addresses[0]} {self.first[0] if self.first else world.port}"
        return {
            **os.environ,
            **dict(zip(plan["env"], self.texts(list(plan["env"].values())), strict=True)),
            "ARES_MEETING": meeting,
            "ARES_RANKS_FILE": self.orders.ranks,
            "ARES_HELPER_ENDS": self.orders.ends,
            "ARES_HELPER_OUTPUT": f"/proc/{os.getpid()}/fd",
            "PATH": f"{os.environ.get('PATH', '')}:{folder}",
        }


def filled(texts: "list[str]", known: "dict[str, str]") -> list[str]:
    """The texts of a plan with what stands for its tokens: `@NAME@`."""
    return [_filled(text, known) for text in texts]


def _filled(text: str, known: "dict[str, str]") -> str:
    parts = text.split("@")
    made, at = parts[0], 1
    while at < len(parts):
        if at + 1 < len(parts) and parts[at] in known:
            made += known[parts[at]] + parts[at + 1]
            at += 2
        else:
            made += "@" + parts[at]
            at += 1
    return made
