"""A profile in a file, as `ares profile show -o yaml` and `ares tune --write` write it."""

from typing import Any, cast

import click


def read_profile(name: str) -> tuple[dict[str, Any], int | None]:
    """The profile, and the version that it says it is a change of."""
    import yaml

    with click.open_file(name, encoding="utf-8") as file:
        try:
            read: object = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise click.ClickException(f"{name} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise click.ClickException(f"{name} holds no profile: write it as `ares profile show -o yaml` prints it")
    found = cast("dict[str, Any]", read)
    return (found["profile"], found.get("version")) if "profile" in found else (found, None)
