"""Routes about schedules."""

from ares.api.jobs import CronBody, CronList, CronView
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers import crons
from ares.edge.rest.http.operation import Body, Operation
from ares.edge.rest.http.problems import ADMISSION_CODES

CRON_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listCrons", "GET", "/crons", "crons:read", "Schedules of the tenant, by name.", crons.list_crons,
        {200: (JSON, CronList)}, NoQuery, tag="crons",
    ),
    Operation(
        "getCron", "GET", "/crons/{cron}", "crons:read", "A schedule, its next moments and what came of the last.",
        crons.get_cron, {200: (JSON, CronView)}, NoQuery, tag="crons",
    ),
    Operation(
        "putCron", "PUT", "/crons/{cron}", "crons:admin", "Make a schedule, or change its job and its times.",
        crons.put_cron, {200: (JSON, CronView)}, NoQuery, Body(CronBody),
        ("cron-invalid", "crons-full", *ADMISSION_CODES), tag="crons",
    ),
    Operation(
        "deleteCron", "DELETE", "/crons/{cron}", "crons:admin", "Remove a schedule. Jobs that it made stay.",
        crons.delete_cron, {204: ("", None)}, NoQuery, tag="crons",
    ),
    Operation(
        "pauseCron", "POST", "/crons/{cron}/pause", "crons:admin", "Let a schedule make no jobs for a while.",
        crons.pause_cron, {200: (JSON, CronView)}, NoQuery, Body(ReasonBody, required=False), tag="crons",
    ),
    Operation(
        "resumeCron", "POST", "/crons/{cron}/resume", "crons:admin", "Let a paused schedule go on from now.",
        crons.resume_cron, {200: (JSON, CronView)}, NoQuery, tag="crons",
    ),
)  # fmt: skip
