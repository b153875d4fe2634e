"""The way out of a cluster that cannot be reached: it says so, instead of trying for ever."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ares.app.commands.kube import kube
from ares.app.kube import rights


def test_a_cluster_that_does_not_answer_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_LISTED_S", 0.3)
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster]}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({**config, "contexts": [context], "users": users}))
    monkeypatch.setenv("ARES_HOME", str(tmp_path))
    done = CliRunner().invoke(kube, ["uninstall", "--cluster", "eu1", "--kubeconfig", str(file), "--yes"])
    assert done.exit_code == 1
    assert "the cluster cannot be cleared now: it did not list its pods within 0.3 s" in done.output
