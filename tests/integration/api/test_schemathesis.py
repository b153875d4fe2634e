"""The running server keeps to its own OpenAPI document, also for requests made to break it."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from ares.edge.rest.routes.routes import OPERATIONS
from tests.integration.api.world import JOB, World

# Every check of schemathesis but one: rules that span fields refuse some requests that fit the schema.
CONFIG = """
[checks]
positive_data_acceptance.enabled = false

# Bad jobs of a batch have their own outcome in a good answer.
[[operations]]
include-path = "/v1/jobs/batch"
checks.negative_data_rejection.enabled = false
"""
# These answers have no end; test_streams.py has tests for them.
ENDLESS = ("/v1/events", "/v1/jobs/{id}/logs")


# Every operation gets its example and a few made-up requests in each run, and all that can be varied in `make chaos`.
SOME = ("--phases", "examples,fuzzing", "--max-examples", "1")
MANY = ("--phases", "examples,coverage,fuzzing", "--max-examples", "20")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("much", [SOME, pytest.param(MANY, marks=pytest.mark.soak)], ids=["some", "many"])
async def test_the_server_keeps_its_word(world: World, tmp_path: Path, much: tuple[str, ...]) -> None:
    token = await world.token("admin")
    async with world.client_with(token) as client:
        await client.post("/v1/jobs", json={"spec": JOB})
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config),
        "run", f"{world.server.url}/v1/openapi.json", "--header", f"Authorization: Bearer {token}",
        *much, "--seed", "1", "--no-color",
        "--continue-on-failure", *(part for path in ENDLESS for part in ("--exclude-path", path)),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    tested = re.search(r"Tested: (\d+)", output)
    assert tested is not None, output
    assert int(tested[1]) >= len(OPERATIONS) - len(ENDLESS), output
