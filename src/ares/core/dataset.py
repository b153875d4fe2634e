"""References to datasets: `ares://datasets/NAME`, or `ares://datasets/NAME@sha256:DIGEST` for one version."""

import re
from typing import Final, NamedTuple

from ares.model.job import VERSION_MARK

PREFIX: Final = "ares://datasets/"
FORM: Final = f"{PREFIX}NAME, or {PREFIX}NAME{VERSION_MARK}DIGEST for one version of it"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9]", re.ASCII)


class DatasetRef(NamedTuple):
    """`sha256` is empty for the newest version."""

    name: str
    sha256: str = ""

    def __str__(self) -> str:
        return f"{PREFIX}{self.name}{VERSION_MARK}{self.sha256}" if self.sha256 else f"{PREFIX}{self.name}"


class DatasetFlaw(Exception):
    """Why it is no reference to a dataset, in words."""


def parse_ref(text: str) -> DatasetRef:
    """Raises DatasetFlaw."""
    if not text.startswith(PREFIX):
        raise DatasetFlaw(f"{text[:200]!r} is no reference to a dataset")
    name, mark, digest = text.removeprefix(PREFIX).partition("@")
    if name_flaw(name):
        raise DatasetFlaw(f"{text[:200]!r} names no dataset: {name_flaw(name)}")
    if not mark:
        return DatasetRef(name)
    if not digest.startswith(VERSION_MARK[1:]) or not _DIGEST.fullmatch(digest.removeprefix(VERSION_MARK[1:])):
        raise DatasetFlaw(f"{text[:200]!r} names no version: a version is sha256: and 64 hexadecimal digits")
    return DatasetRef(name, digest.removeprefix(VERSION_MARK[1:]))


def name_flaw(name: str) -> str:
    """What is wrong with the name of a dataset; empty when nothing is."""
    if _NAME.fullmatch(name):
        return ""
    return "a name has 1 to 128 small letters, digits, dots, dashes and underscores, and no mark at its ends"


def cached_name(tenant: str, sha256: str) -> str:
    """What a version is called among those that nodes have: tenants share none."""
    return f"{tenant}{VERSION_MARK}{sha256}"


def variable(name: str) -> str:
    """The variable of the environment that has an input's directory."""
    return f"ARES_INPUT_{_NOT_IN_NAMES.sub('_', name).upper()}"
