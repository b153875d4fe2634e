from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ares.app import main
from tests.unit.edge.client.stub import Stub


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Ares = Callable[..., Done]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stub]:
    server = Stub()
    monkeypatch.setenv("ARES_URL", server.url)
    monkeypatch.setenv("ARES_TOKEN", "token")
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ARES_DEBUG", raising=False)
    yield server
    server.close()


@pytest.fixture
def ares(capsys: pytest.CaptureFixture[str]) -> Ares:
    """Runs a command line in this process, without a terminal."""

    def run(*arguments: str) -> Done:
        code = main.run(list(arguments))
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The wall clock stands still, an hour after the stub's jobs were submitted."""
    monkeypatch.setattr("time.time", lambda: 4600.0)
    return 4600.0
