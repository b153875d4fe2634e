"""The product's own history as a trace: jobs that ran here are replayed."""

import json
from pathlib import Path

from tests.platform import Platform


def test_jobs_that_ran_are_replayed(platform: Platform, tmp_path: Path) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    ids = [client.submit(command=["true"], name=f"job-{n}", gpus=1, time="1m").id for n in range(3)]
    failed = client.submit(command=["false"], retries=0)
    array = platform.cli("submit", "--array", "0-1", "--name", "sweep", "--wait", "--", "true")
    assert array.code == 0, array
    for job in (*ids, failed.id):
        client.wait(job, 60)

    path = tmp_path / "jobs.jsonl"
    assert platform.cli("history", "-f", str(path)).code == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["node"]["name"] for one in lines if "node" in one] == ["node-a"]
    assert set(ids) <= {one["state"]["id"] for one in lines if "state" in one}

    done = platform.cli("simulate", str(path), "-p", "default", "--check", "-o", "json", "-j", "1")
    assert done.code == 0, done
    found = json.loads(done.out)
    assert found["jobs"] == 6
    assert found["runs"][0]["summary"]["failed"] == 1
    assert found["runs"][0]["summary"]["unfinished"] == 0
    assert found["runs"][0]["gpus"] == len(next(one["node"]["gpus"] for one in lines if "node" in one))
