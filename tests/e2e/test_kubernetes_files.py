"""Pods with a helper: leave to start, files of a project, secrets, outputs; on the stand-in, with real processes."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.model.job import RetryPolicy
from ares.model.secret import SecretRef
from tests.kube_platform import KubePlatform
from tests.kubernetes import NAMESPACE, StandInCluster
from tests.platform import Platform, eventually
from tests.ports import free_ports

pytestmark = pytest.mark.slow

_VALUE = "s3cret-value-of-mine"
_TRAIN = """
import json, os, pathlib
import helper
print("epoch", helper.EPOCH, os.getcwd() == os.environ["ARES_WORKDIR"], os.environ.get("KEY"))
out = pathlib.Path(os.environ["ARES_OUTPUT_DIR"], "deep")
out.mkdir()
(out / "model.bin").write_bytes(b"w" * 3_000_000)
(out / "empty").touch()
"""


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubePlatform]:
    folder: Path = tmp_path_factory.mktemp("kube")
    program, door = folder / "bin" / "ares", f"127.0.0.1:{free_ports(1)[0]}"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ares "$@"\n')
    program.chmod(0o755)
    with StandInCluster(folder / "cluster") as cluster, Platform(folder / "ares", warm=True) as platform:
        flags = ("--helper", "local", "--door", door, "--set", f"kube.door_listen={door}")
        yield KubePlatform(platform, cluster, *flags, programs=program.parent)


def _secrets(kube: KubePlatform) -> list[str]:
    found = kube.cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")["items"]
    return [secret["metadata"]["name"] for secret in found]


def test_a_pod_has_its_project_and_hands_its_outputs_over(kube: KubePlatform, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    (tmp_path / "helper.py").write_text("EPOCH = 7\n")
    ran = kube.platform.cli(
        "submit", "--follow", "--cpus", "0.1", "--memory", "64M", "--", sys.executable, "train.py", at=tmp_path
    )
    assert "epoch 7 True None" in ran.out, (ran.out, ran.err)
    (job,) = re.findall(r"submitted ([0-9a-z]{16})", ran.err)
    files = {file.path: file.size for file in kube.client.outputs(job).files}
    assert files == {"deep/model.bin": 3_000_000, "deep/empty": 0}
    assert sum(len(piece) for piece in kube.client.output(job, "deep/model.bin")) == 3_000_000
    kube.emptied()
    # The door's own is all that is left.
    assert _secrets(kube) == ["ares-door"]


def test_secrets_are_given_masked_and_removed(kube: KubePlatform, tmp_path: Path) -> None:
    """Also after the agent was killed: the next one masks what its pods go on writing."""
    kube.client.set_secret("mine", _VALUE.encode())
    text = (
        'echo "first $KEY"; cat "$ARES_SECRETS_DIR/token"; echo; while [ ! -e {go} ]; do sleep 0.05; done; '
        'echo "again $KEY"; echo "\\"$KEY\\"" > "$ARES_RESULT_FILE"; touch {out}'
    ).format(go=tmp_path / "go", out='"$ARES_OUTPUT_DIR/made"')
    wanted = (SecretRef(name="mine", env="KEY"), SecretRef(name="mine", file="token"))
    job = kube.script(text, secrets=wanted, retry=RetryPolicy(limit=0))
    eventually(lambda: "first" in kube.says(job), "its first line")
    kube.agent.kill()
    (tmp_path / "go").touch()
    kube.agent.start()
    ended = kube.ends(job)
    assert kube.says(job).split() == ["first", "***", "***", "again", "***"]
    assert ended.result is not None
    assert ended.result.value == "***"
    assert [file.path for file in kube.client.outputs(job).files] == ["made"]
    kube.emptied()
    assert _secrets(kube) == ["ares-door"]


def test_a_pod_that_came_back_with_a_backup_does_not_run_again(kube: KubePlatform, tmp_path: Path) -> None:
    ran, go = tmp_path / "ran", tmp_path / "go"
    job = kube.script(f"echo ran >> {ran}; while [ ! -e {go} ]; do sleep 0.05; done")
    kube.runs(job)
    eventually(ran.exists, "its first line")
    name = kube.pod_of(job)["metadata"]["name"]
    restore = kube.cluster.backup()
    go.touch()
    kube.ends(job)
    kube.emptied()
    go.unlink()
    restore()
    assert [pod["metadata"]["name"] for pod in kube.cluster.pods()] == [name]
    kube.emptied()
    assert ran.read_text().split() == ["ran"]
    # What comes next is as before.
    go.touch()
    kube.ends(kube.script("true"))
