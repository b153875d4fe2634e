"""The document says what the app does."""

import json
import re
from typing import Any

import pytest

from ares.edge.rest.http.openapi import document
from ares.edge.rest.http.problems import KINDS
from ares.edge.rest.routes.routes import OPERATIONS, PATH_PARAMETERS


@pytest.fixture(scope="module")
def doc() -> dict[str, Any]:
    return json.loads(document(OPERATIONS, PATH_PARAMETERS))


def test_every_operation_is_there_with_its_permission(doc: dict[str, Any]) -> None:
    documented = {
        (method, path): entry["x-ares-permission"]
        for path, item in doc["paths"].items()
        for method, entry in item.items()
    }
    assert documented == {(op.method.lower(), f"/v1{op.path}"): op.access for op in OPERATIONS}


def test_only_public_routes_go_without_a_token(doc: dict[str, Any]) -> None:
    assert doc["security"] == [{"token": []}]
    assert doc["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    opened = {path for path, item in doc["paths"].items() for entry in item.values() if entry.get("security") == []}
    assert opened == {"/v1/auth", "/v1/auth/logins", "/v1/auth/sessions", "/v1/healthz", "/v1/readyz"}


def test_requests_admit_no_unknown_fields(doc: dict[str, Any]) -> None:
    schemas = doc["components"]["schemas"]
    for name in ("SubmitBody", "JobSpec", "Resources", "RetryPolicy", "Warn", "ReasonBody", "TokenBody", "BatchBody"):
        assert schemas[name]["additionalProperties"] is False, name
    assert schemas["JobSpec"]["properties"]["env"]["additionalProperties"] != False  # noqa: E712


def test_every_number_asked_for_is_bounded(doc: dict[str, Any]) -> None:
    unbounded: list[str] = []

    def look(schema: Any, where: str) -> None:
        if isinstance(schema, dict):
            if schema.get("type") in ("integer", "number") and not {"minimum", "maximum"} <= schema.keys():
                unbounded.append(where)
            for key, value in schema.items():
                look(value, f"{where}.{key}")
        elif isinstance(schema, list):
            for value in schema:
                look(value, where)

    for name, schema in doc["components"]["schemas"].items():
        if schema.get("additionalProperties") is False:
            look(schema, name)
    for path, item in doc["paths"].items():
        for entry in item.values():
            look(entry["parameters"], path)
    assert unbounded == []


def test_errors_are_documented_as_problems(doc: dict[str, Any]) -> None:
    for path, item in doc["paths"].items():
        for entry in item.values():
            errors = {s: a for s, a in entry["responses"].items() if s >= "400" and "HealthView" not in json.dumps(a)}
            assert {"421", "422", "500"} <= errors.keys(), path
            assert all("application/problem+json" in answer["content"] for answer in errors.values())
    text = json.dumps(doc["paths"])
    unsaid = {code for code in KINDS if f"`{code}`" not in text}
    assert unsaid == {"lagged", "not-ready", "method-not-allowed", "cluster-unreachable"}


def test_references_resolve_and_nothing_is_left_over(doc: dict[str, Any]) -> None:
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(doc)))
    assert used == doc["components"]["schemas"].keys()


def test_bodies_have_examples_that_are_valid(doc: dict[str, Any]) -> None:
    from ares.edge.rest.http.strict import StrictDecoder

    for operation in OPERATIONS:
        if operation.body is not None and not operation.body.binary:
            entry = doc["paths"][f"/v1{operation.path}"][operation.method.lower()]
            example = entry["requestBody"]["content"]["application/json"]["example"]
            decoded, _ = StrictDecoder(operation.body.type).decode(json.dumps(example).encode())
            assert isinstance(decoded, operation.body.type)


def test_patterns_are_portable(doc: dict[str, Any]) -> None:
    assert "(?!" not in json.dumps(doc)
