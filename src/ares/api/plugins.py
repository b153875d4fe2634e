"""Filters, scorers, orders and actions that a profile can name, and runtimes that a job can."""

from typing import Literal

from ares.model.base import Record

# "unknown": of a group that Ares has no use for.
PluginKind = Literal["filter", "scorer", "order", "action", "runtime", "unknown"]


class Plugin(Record, frozen=True):
    kind: PluginKind
    name: str
    # The distribution it comes from, with its version.
    origin: str
    used: bool = False
    # What happened, of one that plans are made without until the profile changes. The leader knows.
    cut_off: str = ""


class RefusedPlugin(Record, frozen=True):
    """It was installed and is not there; `error` says why."""

    kind: PluginKind
    name: str
    origin: str
    error: str


class PluginList(Record, frozen=True):
    plugins: tuple[Plugin, ...]
    refused: tuple[RefusedPlugin, ...] = ()
    # Names of the profile in force that nothing here answers to.
    missing: tuple[str, ...] = ()
