"""Requests about decisions, run times, starts and use, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping

import msgspec

from ares.api.deadlines import SlaBy, SlaList, SlaView
from ares.api.decisions import Explanation, PlanAnswer, PrioRow, ReplayAnswer, RouteSeen
from ares.api.predictions import JobPrediction, ModelView, PredictionReport
from ares.api.telemetry.traces import JobTrace
from ares.edge.client.calls.calls import JSON, Call, Request, part, query
from ares.model.job import JobSpec
from ares.model.state import LedgerEvent

_PATH = "/v1/predictions"


def report() -> Call[PredictionReport]:
    return Call(Request("GET", _PATH), PredictionReport)


def job(spec: JobSpec) -> Call[JobPrediction]:
    return Call(Request("POST", _PATH, (), msgspec.json.encode({"spec": spec}), JSON), JobPrediction)


def install(model: bytes) -> Call[ModelView]:
    """`model` is what `ares predict train` wrote."""
    return Call(Request("PUT", f"{_PATH}/model", (), model, JSON), ModelView)


def remove() -> Call[None]:
    return Call(Request("DELETE", f"{_PATH}/model"), None)


# ---- decisions


def explain(job_id: str) -> Call[Explanation]:
    return Call(Request("GET", f"/v1/jobs/{part(job_id)}/explain"), Explanation)


def route(job_id: str) -> Call[RouteSeen]:
    return Call(Request("GET", f"/v1/jobs/{part(job_id)}/route"), RouteSeen)


def trace(job_id: str) -> Call[JobTrace]:
    return Call(Request("GET", f"/v1/jobs/{part(job_id)}/trace"), JobTrace)


def plan(spec: JobSpec) -> Call[PlanAnswer]:
    return Call(Request("POST", "/v1/plan", (), msgspec.json.encode({"spec": spec}), JSON), PlanAnswer)


def prio(limit: int) -> Call[tuple[PrioRow, ...]]:
    return Call(Request("GET", "/v1/prio", query({"limit": limit})), tuple[PrioRow, ...], "jobs")


def sla(by: SlaBy = "class", since_s: float | None = None) -> Call[tuple[SlaView, ...]]:
    asked = {"by": by, "sinceS": since_s} if by != "class" or since_s is not None else {}
    return Call(Request("GET", "/v1/sla", query(asked)), tuple[SlaView, ...], "classes")


def sla_list(by: SlaBy = "class", since_s: float | None = None) -> Call[SlaList]:
    """The same, with how old what is known of clusters is."""
    return Call(sla(by, since_s).request, SlaList)


def preemptions(job_id: str) -> Call[tuple[LedgerEvent, ...]]:
    return Call(Request("GET", f"/v1/jobs/{part(job_id)}/preemptions"), tuple[LedgerEvent, ...], "events")


def replay(decision: str, weights: Mapping[str, float]) -> Call[ReplayAnswer]:
    path, body = f"/v1/decisions/{part(decision)}/replay", msgspec.json.encode({"weights": weights})
    return Call(Request("POST", path, (), body, JSON), ReplayAnswer)
