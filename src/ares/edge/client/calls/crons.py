"""Requests about schedules, as values like those in `calls`, and what they are answered."""

from typing import Unpack

import msgspec

from ares.api.jobs import CronBody, CronView
from ares.edge.client.ask import JobFields
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.http import spec_of
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.cron import MissedRuns, Overlap
from ares.model.job import JobSpec


def crons() -> Call[tuple[CronView, ...]]:
    return Call(Request("GET", "/v1/crons"), tuple[CronView, ...], "crons")


def cron(name: str) -> Call[CronView]:
    return Call(Request("GET", _path(name)), CronView)


def set_cron(name: str, body: CronBody) -> Call[CronView]:
    return Call(Request("PUT", _path(name), (), msgspec.json.encode(body), JSON), CronView)


def remove_cron(name: str) -> Call[None]:
    return Call(Request("DELETE", _path(name)), None)


def pause_cron(name: str, reason: str) -> Call[CronView]:
    return Call(Request("POST", f"{_path(name)}/pause", (), msgspec.json.encode({"reason": reason}), JSON), CronView)


def resume_cron(name: str) -> Call[CronView]:
    return Call(Request("POST", f"{_path(name)}/resume"), CronView)


def _path(name: str) -> str:
    return f"/v1/crons/{part(name)}"


class AsyncCronMethods(AsyncSends):
    """Of the asynchronous client."""

    async def crons(self) -> tuple[CronView, ...]:
        """The tenant's schedules, by name."""
        return await self.send(crons())

    async def cron(self, name: str) -> CronView:
        """One schedule, its next moments and what came of the last."""
        return await self.send(cron(name))

    async def set_cron(
        self, cron_name: str, schedule: str, spec: JobSpec | None = None, *, zone: str = "UTC",
        missed: MissedRuns = "skip", overlap: Overlap = "forbid", **ask: Unpack[JobFields],
    ) -> CronView:  # fmt: skip
        """Makes a schedule, or changes one: set_cron("nightly", "30 3 * * *", command=[...], zone="Europe/Berlin")."""
        body = CronBody(schedule=schedule, spec=spec_of(spec, ask), zone=zone, missed=missed, overlap=overlap)
        return await self.send(set_cron(cron_name, body))

    async def remove_cron(self, name: str) -> None:
        """Jobs that it made stay."""
        await self.send(remove_cron(name))

    async def pause_cron(self, name: str, reason: str = "") -> CronView:
        """It makes no jobs until it is resumed."""
        return await self.send(pause_cron(name, reason))

    async def resume_cron(self, name: str) -> CronView:
        """It goes on from now."""
        return await self.send(resume_cron(name))


class CronMethods(Sends):
    """Of the asynchronous client."""

    def crons(self) -> tuple[CronView, ...]:
        """The tenant's schedules, by name."""
        return self.send(crons())

    def cron(self, name: str) -> CronView:
        """One schedule, its next moments and what came of the last."""
        return self.send(cron(name))

    def set_cron(
        self, cron_name: str, schedule: str, spec: JobSpec | None = None, *, zone: str = "UTC",
        missed: MissedRuns = "skip", overlap: Overlap = "forbid", **ask: Unpack[JobFields],
    ) -> CronView:  # fmt: skip
        """Makes a schedule, or changes one: set_cron("nightly", "30 3 * * *", command=[...], zone="Europe/Berlin")."""
        body = CronBody(schedule=schedule, spec=spec_of(spec, ask), zone=zone, missed=missed, overlap=overlap)
        return self.send(set_cron(cron_name, body))

    def remove_cron(self, name: str) -> None:
        """Jobs that it made stay."""
        self.send(remove_cron(name))

    def pause_cron(self, name: str, reason: str = "") -> CronView:
        """It makes no jobs until it is resumed."""
        return self.send(pause_cron(name, reason))

    def resume_cron(self, name: str) -> CronView:
        """It goes on from now."""
        return self.send(resume_cron(name))
