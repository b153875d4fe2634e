"""Every metric Ares exports, declared once."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "histogram", "gauge"]

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """`label` is the name of its one label, empty for none: a job or tenant is never a label."""

    kind: Kind
    help: str
    label: str = ""
    buckets: tuple[float, ...] = _FAST


METRICS: dict[str, Metric] = {
    "ares_jobs_total": Metric("counter", "Jobs that entered a state.", "state"),
    "ares_submissions_total": Metric("counter", "Submissions by outcome.", "outcome"),
    "ares_attempts_total": Metric("counter", "Attempts that ended, by outcome.", "outcome"),
    "ares_lease_acquisitions_total": Metric("counter", "Grants of an attempt to a node."),
    "ares_lease_losses_total": Metric("counter", "Attempts taken away from a silent or restarted node."),
    "ares_stale_reports_total": Metric(
        "counter", "Reports of attempts that had been taken away: refused, by what they said.", "report"
    ),
    "ares_preemptions_total": Metric("counter", "Attempts taken away for others or to be moved, by rule.", "rule"),
    "ares_reservations_total": Metric("counter", "Changes of reservations, by the state they entered.", "state"),
    "ares_reserved_gpus": Metric("gauge", "GPUs booked by reservations, by their state.", "state"),
    "ares_deadlines_met_total": Metric("counter", "Jobs that met their deadline, by class of service.", "sla"),
    "ares_deadlines_missed_total": Metric("counter", "Jobs that missed their deadline, by class of service.", "sla"),
    "ares_quota_refusals_total": Metric("counter", "Jobs that did not fit into a quota, by code.", "code"),
    "ares_quota_drift_total": Metric("counter", "Recounts of a tenant's use that differed by more than a tenth."),
    "ares_alerts_total": Metric("counter", "Alerts raised, by kind.", "kind"),
    "ares_alert_deliveries_total": Metric("counter", "Notices sent to channels, by outcome.", "outcome"),
    "ares_decisions_dropped_total": Metric("counter", "Decisions that could not be kept on disk."),
    "ares_log_bytes_total": Metric("counter", "Bytes of job output kept."),
    "ares_log_unkept_total": Metric("counter", "Pieces of job output that could not be kept when they came."),
    "ares_log_lost_bytes_total": Metric("counter", "Bytes of job output that were given up: their logs say so."),
    "ares_output_bytes_total": Metric("counter", "Bytes of files that jobs handed over."),
    "ares_project_bytes_total": Metric("counter", "Bytes of files that clients shipped for their jobs."),
    "ares_staged_bytes_total": Metric("counter", "Bytes of shipped files that nodes fetched."),
    "ares_uploads_refused_total": Metric("counter", "Pieces of files of attempts that had been taken away: refused."),
    "ares_http_requests_total": Metric("counter", "HTTP answers by status.", "status"),
    "ares_auth_denials_total": Metric("counter", "Requests denied, by reason.", "reason"),
    "ares_audit_entries_total": Metric("counter", "Entries written to the audit chain."),
    "ares_audit_lost_total": Metric("counter", "Audit entries lost while the disk took none."),
    "ares_limited_total": Metric("counter", "Requests refused for being too many or too large, by reason.", "reason"),
    "ares_eta_total": Metric(
        "counter", "Jobs that had to wait, by whether they started when they were told.", "within"
    ),
    "ares_scheduling_latency_seconds": Metric("histogram", "From queued to bound.", buckets=_SLOW),
    "ares_cycle_seconds": Metric("histogram", "One scheduling cycle."),
    "ares_jobs_unreached": Metric("gauge", "Waiting jobs that the latest cycle had no time for."),
    "ares_plans_dropped_total": Metric("counter", "Parts of plans that did not hold when the leader verified them."),
    "ares_planners_lost_total": Metric("counter", "Planning processes that died, or did not answer in time."),
    "ares_store_latency_seconds": Metric("histogram", "Calls to the store of record, by operation.", "op"),
    "ares_recovery_seconds": Metric("histogram", "From a node's last sign of life to the decision.", buckets=_SLOW),
    "ares_queue_depth": Metric("gauge", "Jobs waiting for a place."),
    "ares_pending_jobs": Metric("gauge", "Jobs waiting for a place, by the reason.", "reason"),
    "ares_pool_power_watts": Metric("gauge", "Power that a pool draws by the model.", "pool"),
    "ares_profile_version": Metric("gauge", "Version of the profile that scheduling goes by."),
    "ares_agents_connected": Metric("gauge", "Agents with an open stream to this replica."),
    "ares_streams_open": Metric("gauge", "Event and log streams open on this replica."),
    "ares_nodes": Metric("gauge", "Machines, by whether their agent renews and is reached.", "health"),
    "ares_lease_age_seconds": Metric("gauge", "Age of the oldest lease of a machine that is ready."),
    "ares_store_age_seconds": Metric("gauge", "Since this replica last heard of the store."),
    "ares_leader_age_seconds": Metric("gauge", "Since the leader was elected; 0 when nobody leads."),
    "ares_leader": Metric("gauge", "1 on the replica that leads scheduling."),
}
