"""Job files: YAML, TOML or JSON, all with the same keys."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ares.edge.client.errors import InvalidSpec


def read_job_file(name: str) -> dict[str, object]:
    """The keys of a job file. `-` is standard input, in YAML or JSON."""
    if name == "-":
        return _mapping("standard input", _yaml, sys.stdin.buffer.read())
    path = Path(name)
    return _mapping(name, _READERS.get(path.suffix.lower(), _yaml), path.read_bytes())


def _mapping(name: str, read: Callable[[str], Any], data: bytes) -> dict[str, object]:
    try:
        value: object = read(data.decode())
    except ValueError as error:
        raise InvalidSpec(
            f"{name} cannot be read: {error}", fix="correct the file; see `ares submit --help`"
        ) from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", value)):
        raise InvalidSpec(
            f"{name} does not hold a job", fix="write keys at its top, such as command: [python, train.py]"
        )
    return cast("dict[str, object]", value)


def _yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice: YAML itself would drop the first silently."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            construct = cast("Callable[..., Any]", self.construct_object)  # pyright: ignore[reportUnknownMemberType]
            keys = [construct(key, deep=True) for key, _ in node.value]
            twice = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
            if twice is not None:
                raise ValueError(f"the key {twice!r} stands twice, line {node.start_mark.line + 1}")
            return cast("Mapping[Any, Any]", super().construct_mapping(node, deep))  # type: ignore[return-value]

    try:
        return yaml.load(text, Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        said = [text for text in (error.context, error.problem) if text]
        raise ValueError(where + ", ".join(said)) from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


def _json(text: str) -> Any:
    import json

    return json.loads(text)


_READERS: Mapping[str, Callable[[str], Any]] = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}
