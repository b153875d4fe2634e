"""Routes of the files that jobs start with."""

from ares.api.projects import PartsKept, ProjectAnswer, ProjectManifest
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import projects
from ares.edge.rest.http.operation import Body, Operation

_PROBLEMS = ("project-invalid", "project-too-much", "project-unknown", "store-full")

PROJECT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "shipProject", "POST", "/projects", "jobs:submit",
        "Keep the manifest of a project; the answer names the parts that are still to be sent.",
        projects.ship_project, {200: (JSON, ProjectAnswer)}, NoQuery, Body(ProjectManifest, typed=False, batch=True),
        _PROBLEMS,
    ),
    Operation(
        "shipParts", "POST", "/projects/parts", "jobs:submit",
        "Keep parts of files: each as its length in four bytes, the highest first, and its bytes.",
        projects.ship_parts, {200: (JSON, PartsKept)}, NoQuery,
        Body(ProjectManifest, typed=False, batch=True, binary=True), _PROBLEMS,
    ),
)  # fmt: skip
