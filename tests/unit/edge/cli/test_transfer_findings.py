"""What `ares doctor` says of servers that nodes stay away from."""

from ares.api.quotas import BreakerRow, PausedJob, TransfersView
from ares.edge.cli.findings import of_transfers


def test_only_breakers_that_are_not_closed_are_worth_a_word() -> None:
    assert of_transfers(TransfersView(transfers=())) == []


def test_the_server_the_tenant_and_the_jobs_are_named() -> None:
    row = BreakerRow(node="n1", endpoint="registry.lab:5000", tenant="research", phase="open")
    (finding,) = of_transfers(
        TransfersView(transfers=(), breakers=(row, row), paused=(PausedJob(job="j1", endpoint="registry.lab:5000"),))
    )
    assert (finding.check, finding.status) == ("transfers", "warning")
    assert "registry.lab:5000 (research, from n1); jobs that wait for that: 1" in finding.message
    assert "ares data top" in finding.fix
