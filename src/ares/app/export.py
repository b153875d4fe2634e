"""Sending traces and metrics to a collector of OTLP, where the configuration names one."""

from collections.abc import Awaitable, Callable, Coroutine

import structlog

from ares.adapters.telemetry.metrics import METRICS
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.app.config import Config
from ares.control.replica import Replica
from ares.control.telemetry.looks import guarded
from ares.control.telemetry.trace_export import TraceExport
from ares.core.trace.tail import TailRules
from ares.ports.clock import Clock
from ares.ports.telemetry import NotTaken

log = structlog.get_logger()


def exporting(
    config: Config,
    replica: Replica,
    telemetry: PrometheusTelemetry,
    measure: Callable[[], Awaitable[None]],
    clock: Clock,
) -> dict[str, Coroutine[object, object, None]]:
    """Loops by name; none without a collector. Its library is only loaded where there is one."""
    given = config.otlp
    if not given.endpoint:
        return {}
    from ares.adapters.telemetry.otlp import OtlpCollector

    facts = {"service.instance.id": replica.name, "ares.cluster": config.cluster}
    collector = OtlpCollector(given.endpoint, given.headers_file, facts)
    rules = TailRules(percent=given.traces_percent, slow_s=given.slow_s)
    export = TraceExport(replica.traces, collector, rules, clock, telemetry)
    replica.transitions.heed_ends = export.ended

    loops: dict[str, Coroutine[object, object, None]] = {"traces": export.run()}
    began = clock.wall()

    async def tell_metrics() -> None:
        try:
            await measure()
            await collector.take_metrics(METRICS, telemetry.snapshot(), began, clock.wall())
        except NotTaken as refused:
            # The next ones say all that these would have: counters go on from where they are.
            telemetry.count("ares_exports_failed_total", 1, "metrics")
            log.warning("metrics.unsent", why=str(refused))

    async def tell_again_and_again() -> None:
        while True:
            await clock.sleep(given.metrics_every_s)
            await guarded("metrics", tell_metrics, telemetry)

    if given.metrics_every_s:
        loops["metrics"] = tell_again_and_again()
    return loops
