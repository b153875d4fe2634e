"""Requests about run times and starts, as values like those in `calls`, and what they are answered."""

import msgspec

from ares.api.predictions import JobPrediction, ModelView, PredictionReport
from ares.edge.client.calls.calls import JSON, Call, Request
from ares.model.job import JobSpec

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
