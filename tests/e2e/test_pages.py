"""README and guides: every command and snippet is run as it stands, page by page, or says why it is not."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.documents import PAGES, ROOT, blocks, placed, runners_of
from tests.everyday import Person

pytestmark = pytest.mark.slow
RUN = [page for page in PAGES if not runners_of(page) and blocks(page)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with Person(tmp_path_factory.mktemp("reader"), ordinary=False) as person:
        yield person


def latest(reader: Person) -> str:
    return reader.run("ares jobs --limit 1 -o name").stdout.strip()


@pytest.mark.parametrize("page", RUN, ids=[str(page.relative_to(ROOT)) for page in RUN])
def test_page_as_it_is_written(reader: Person, page: Path) -> None:
    folder = reader.home / page.stem
    folder.mkdir()
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    for block in blocks(page):
        if block.not_run or block.run_by:
            continue
        if block.file:
            (folder / block.file).write_text(block.text)
            continue
        if block.language == "python":
            script = "\n".join((*block.before, block.text))
            (folder / "snippet.py").write_text(script)
            done = reader.run("python snippet.py", cwd=folder)
            assert done.returncode == 0, (block.name, done.stdout, done.stderr)
            continue
        for command in block.before:
            done = reader.run(command, cwd=folder)
            assert done.returncode == 0, (block.name, command, done.stdout, done.stderr)
        codes = dict(block.codes)
        for number, command in enumerate(block.commands(), start=1):
            done = reader.run(placed(command, partial(latest, reader)), cwd=folder)
            assert done.returncode == codes.get(number, 0), (block.name, command, done.stdout, done.stderr)
