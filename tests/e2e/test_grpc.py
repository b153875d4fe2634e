"""The gRPC service of real processes: the guide as it is written, and the client generated in Go."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks
from tests.everyday import Person
from tests.golang import BUILD_S, go_client
from tests.platform import Platform
from tests.ports import free_ports

PAGE = ROOT / "docs" / "guides" / "grpc.md"


@pytest.mark.slow
def test_the_guide_as_it_is_written(tmp_path: Path) -> None:
    with Person(tmp_path, ordinary=False) as reader:
        # The page begins with a platform that is not up yet, and with ports that nobody else has.
        assert reader.run("ares down --yes").returncode == 0
        http, agents, grpc = free_ports(3)
        folder = reader.home / "clone"
        folder.mkdir()
        (folder / "proto").symlink_to(ROOT / "proto")
        said = ""
        for block in blocks(PAGE):
            if block.not_run:
                continue
            text = block.text.replace("8644", str(grpc))
            if block.language == "python":
                (folder / "client.py").write_text(text)
                continue
            own = f"ares up --no-sample --port {http} --set agents.port={agents}"
            # What is to be installed is here: nothing is fetched.
            env = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            done = reader.run(text.replace("ares up", own), cwd=folder, env=env)
            assert done.returncode == 0, (block.name, done.stdout, done.stderr)
            said += done.stdout
        assert f"gRPC at 127.0.0.1:{grpc}" in said
        assert said.endswith("hello\n")
        listed = reader.run("ares jobs -o json")
        assert [job["requestId"] for job in json.loads(listed.stdout)["jobs"]] == ["hello-1"]


@pytest.mark.timeout(BUILD_S)
@pytest.mark.slow
def test_a_client_generated_in_go(platform: Platform) -> None:
    program = go_client()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    platform.server(env={"ARES_GRPC__LISTEN": address})
    platform.agent("node-a")
    done = subprocess.run(
        [program, address], env={**os.environ, "ARES_TOKEN": platform.admin_token}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw.pop("events")[0] == "submitted"
    job = saw.pop("job")
    assert saw == {
        "replayed": True, "output": "from go\ndone\n", "phase": "SUCCEEDED", "listed": 2, "pages": 2,
        "cancel": "CANCELLED", "nodes": 1, "refusal": "NotFound", "reason": "not-found",
    }  # fmt: skip
    # The other forms of the API know the same job.
    assert platform.client().get(job).state.phase == "SUCCEEDED"
