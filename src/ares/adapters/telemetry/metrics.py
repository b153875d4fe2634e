"""Every metric that Ares exports, declared once, by group. docs/concepts/metrics.md has the same table for people.

The cluster is never a label: a Prometheus that scrapes several adds it. Gauges of the whole cluster come from the
replica that leads alone; the others have no such series, so that a sum over replicas counts nothing twice."""

from typing import Final

from ares.adapters.telemetry.series import COARSE, SLOW, Metric
from ares.model.job import PRIORITIES
from ares.model.state import Phase

_PHASES: Final[tuple[Phase, ...]] = (
    "WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED", "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN",
    "SKIPPED",
)  # fmt: skip

# ---- jobs and attempts

_JOBS: Final[dict[str, Metric]] = {
    "ares_jobs_total": Metric(
        "counter", "Jobs that entered a state.", ("state",), begins=tuple((phase.lower(),) for phase in _PHASES)
    ),
    "ares_transitions_total": Metric(
        "counter", "Changes of jobs, by outcome: written, or refused because they no longer applied.", ("outcome",),
        begins=(("written",), ("refused",)),
    ),
    "ares_attempts_total": Metric("counter", "Attempts that ended, by outcome.", ("outcome",)),
    "ares_retries_total": Metric(
        "counter", "Attempts that are repeated, by what failed.", ("failure",), begins=(("exit",), ("node-lost",))
    ),
    "ares_lease_acquisitions_total": Metric("counter", "Grants of an attempt to a node."),
    "ares_lease_losses_total": Metric("counter", "Attempts taken away from a silent or restarted node."),
    "ares_stale_reports_total": Metric(
        "counter", "Reports of attempts that had been taken away: refused, by what they said.", ("report",)
    ),
    "ares_preemptions_total": Metric("counter", "Attempts taken away for others or to be moved, by rule.", ("rule",)),
    "ares_jobs_running": Metric("gauge", "Attempts that hold a place, by pool.", ("pool",), 64),
}  # fmt: skip

# ---- submission and the API

_API: Final[dict[str, Metric]] = {
    "ares_submissions_total": Metric(
        "counter", "Submissions by outcome.", ("outcome",), 32, begins=(("accepted",),)
    ),
    "ares_submit_seconds": Metric("histogram", "From a submission to its acknowledgement, which is durable."),
    "ares_http_requests_total": Metric("counter", "HTTP answers by status.", ("status",), 40),
    "ares_grpc_requests_total": Metric("counter", "Calls of the gRPC service by status.", ("status",), 20),
    "ares_http_request_duration_seconds": Metric(
        "histogram", "From a request to the first byte of its answer, by operation, method and class of status.",
        ("route", "method", "status_class"), 200, COARSE,
    ),
    "ares_auth_denials_total": Metric("counter", "Requests denied, by reason.", ("reason",), 40),
    "ares_limited_total": Metric(
        "counter", "Requests refused for being too many or too large, by reason.", ("reason",)
    ),
    "ares_streams_open": Metric("gauge", "Event and log streams open on this replica."),
    "ares_streams_lagged_total": Metric("counter", "Streams that were cut off: their reader did not keep up."),
    "ares_quota_refusals_total": Metric("counter", "Jobs that did not fit into a quota, by code.", ("code",)),
    "ares_quota_drift_total": Metric("counter", "Recounts of a tenant's use that differed by more than a tenth."),
}  # fmt: skip

# ---- scheduling and the queue

_SCHEDULER: Final[dict[str, Metric]] = {
    "ares_scheduling_latency_seconds": Metric("histogram", "From queued to bound.", buckets=SLOW),
    "ares_wait_seconds": Metric(
        "histogram", "From queued to bound, by priority.", ("priority",), len(PRIORITIES), SLOW,
        begins=(("NORMAL",),),
    ),
    "ares_start_latency_seconds": Metric("histogram", "From queued to running.", buckets=SLOW),
    "ares_cycle_seconds": Metric("histogram", "One scheduling cycle."),
    "ares_placements_total": Metric(
        "counter", "Attempts that were given a place, by kind: single, gang.", ("kind",), 4,
        begins=(("single",), ("gang",)),
    ),
    "ares_jobs_unreached": Metric("gauge", "Waiting jobs that the latest cycle had no time for."),
    "ares_plans_dropped_total": Metric("counter", "Parts of plans that did not hold when the leader verified them."),
    "ares_plan_parts_total": Metric("counter", "Parts of plans, by planner, where there are several.", ("planner",)),
    "ares_plan_conflicts_total": Metric(
        "counter", "Parts of plans, by planner, that collided with what other planners got.", ("planner",)
    ),
    "ares_planners_lost_total": Metric("counter", "Planning processes that died, or did not answer in time."),
    "ares_decisions_dropped_total": Metric("counter", "Decisions that could not be kept on disk."),
    "ares_queue_depth": Metric("gauge", "Jobs waiting for a place."),
    "ares_oldest_pending_seconds": Metric("gauge", "How long the job has waited that has waited longest."),
    "ares_pending_jobs": Metric("gauge", "Jobs waiting for a place, by the reason.", ("reason",), 64),
    "ares_pending_gpus": Metric("gauge", "GPUs that waiting jobs ask for."),
    "ares_reservations_total": Metric("counter", "Changes of reservations, by the state they entered.", ("state",)),
    "ares_autoscale_instances": Metric(
        "gauge", "Machines that were bought, by pool and state.", ("pool", "state"), 256
    ),
    "ares_autoscale_bought_total": Metric("counter", "Machines bought, by pool.", ("pool",), 64),
    "ares_autoscale_strangers_total": Metric("counter", "Machines without a record that were deleted."),
    "ares_reserved_gpus": Metric("gauge", "GPUs booked by reservations, by their state.", ("state",)),
    "ares_profile_version": Metric("gauge", "Version of the profile that scheduling goes by."),
}  # fmt: skip

# ---- fairness, deadlines, cost

_PROMISES: Final[dict[str, Metric]] = {
    "ares_share_gini": Metric(
        "gauge", "How unequal tenants' shares of what is held are, by their weights: 0 equal, 1 all with one."
    ),
    "ares_tenants_active": Metric("gauge", "Tenants that hold something now."),
    "ares_borrowed_gpus": Metric("gauge", "GPUs that tenants hold beyond their share, while others leave them free."),
    "ares_deadlines_met_total": Metric(
        "counter", "Jobs that met their deadline, by class of service.", ("sla",), 64, begins=(("own",),)
    ),
    "ares_deadlines_missed_total": Metric(
        "counter", "Jobs that missed their deadline, by class of service.", ("sla",), 64, begins=(("own",),)
    ),
    "ares_deadlines_open": Metric("gauge", "Jobs with a deadline that is neither met nor missed.", ("sla",), 64),
    "ares_deadlines_at_risk": Metric("gauge", "Of those, jobs that will miss it by the estimates.", ("sla",), 64),
    "ares_eta_total": Metric(
        "counter", "Jobs that had to wait, by whether they started when they were told.", ("within",), 4,
        begins=(("yes",), ("no",)),
    ),
    "ares_gpu_seconds_total": Metric(
        "counter", "GPU-seconds by pool and use: useful and lost, counted when an attempt ends; idle, as it passes.",
        ("pool", "use"), 96,
    ),
    "ares_energy_joules_total": Metric(
        "counter",
        "Energy by pool and source: modelled, of attempts that ended; measured, as it passes, of held GPUs that tell.",
        ("pool", "source"), 64,
    ),
    "ares_cost_total": Metric(
        "counter", "Cost of attempts that ended, by pool, in the currency of the profile.", ("pool",), 64
    ),
    "ares_pool_power_watts": Metric("gauge", "Power that a pool draws by the model.", ("pool",), 64),
}  # fmt: skip

# ---- machines and their GPUs

_MACHINES: Final[dict[str, Metric]] = {
    "ares_agents_connected": Metric("gauge", "Agents with an open stream to this replica."),
    "ares_clusters_connected": Metric("gauge", "Clusters of the federation with an open stream to this replica."),
    "ares_federation_autonomous": Metric("gauge", "1 while this cluster is cut off from its global plane."),
    "ares_cluster_data_age_seconds": Metric(
        "gauge", "Since a cluster of this global plane last told its books, by the leader.", ("cluster",), 64
    ),
    "ares_nodes": Metric("gauge", "Machines, by whether their agent renews and is reached.", ("health",), 4),
    "ares_lease_age_seconds": Metric("gauge", "Age of the oldest lease of a machine that is ready."),
    "ares_recovery_seconds": Metric("histogram", "From a node's last sign of life to the decision.", buckets=SLOW),
    "ares_gpus": Metric(
        "gauge", "GPUs of machines that are ready, by pool and state: held, free.", ("pool", "state"), 64
    ),
    "ares_gpu_utilization": Metric(
        "gauge", "How busy a GPU is by its driver, from 0 to 1.", ("node", "gpu_id"), 256, rest="mean"
    ),
    "ares_gpu_memory_used_bytes": Metric(
        "gauge", "Memory of a GPU in use by its driver.", ("node", "gpu_id"), 256
    ),
    "ares_gpu_power_watts": Metric("gauge", "What a GPU draws by its driver.", ("node", "gpu_id"), 256),
    "ares_gpu_temperature_celsius": Metric(
        "gauge", "How hot a GPU is by its driver.", ("node", "gpu_id"), 256, rest="max"
    ),
    "ares_gpu_readings_age_seconds": Metric("gauge", "Age of the oldest of those readings."),
}  # fmt: skip

# ---- this replica, its store and its disks

_REPLICA: Final[dict[str, Metric]] = {
    "ares_leader": Metric("gauge", "1 on the replica that leads scheduling."),
    "ares_leader_age_seconds": Metric("gauge", "Since the leader was elected; 0 when nobody leads."),
    "ares_store_latency_seconds": Metric(
        "histogram", "Calls to the store of record, by operation.", ("op",), 6,
        begins=(("txn",), ("submit",), ("renew",)),
    ),
    "ares_store_conflicts_total": Metric(
        "counter", "Transactions that compared what had changed meanwhile, and were tried again.", ("op",), 6,
        begins=(("txn",), ("submit",)),
    ),
    "ares_store_age_seconds": Metric("gauge", "Since this replica last heard of the store."),
    "ares_look_failures_total": Metric(
        "counter", "Looks of this replica at its own numbers that failed, by what for: gpus, insights, series, traces, "
        "metrics.", ("look",), 8, begins=(("gpus",), ("insights",), ("series",)),
    ),
    "ares_loop_lag_seconds": Metric("histogram", "How late this replica's event loop is, looked at twice a second."),
    "ares_disk_free_bytes": Metric("gauge", "Room left where this replica writes.", ("disk",), 8),
    "ares_disk_bytes": Metric("gauge", "Size of the disks where this replica writes.", ("disk",), 8),
    "ares_records_aside": Metric("gauge", "Records of the store that cannot be read and were set aside."),
    "ares_log_bytes_total": Metric("counter", "Bytes of job output kept."),
    "ares_log_unkept_total": Metric("counter", "Pieces of job output that could not be kept when they came."),
    "ares_log_lost_bytes_total": Metric("counter", "Bytes of job output that were given up: their logs say so."),
    "ares_output_bytes_total": Metric("counter", "Bytes of files that jobs handed over."),
    "ares_project_bytes_total": Metric("counter", "Bytes of files that clients shipped for their jobs."),
    "ares_checkpoints_total": Metric("counter", "Checkpoints that became the newest of their job."),
    "ares_checkpoint_bytes_total": Metric("counter", "Bytes of checkpoints that were kept."),
    "ares_checkpoints_refused_total": Metric(
        "counter", "Checkpoints that were not kept: of attempts that had been taken away, or not as they must be."
    ),
    "ares_restored_bytes_total": Metric("counter", "Bytes of checkpoints that nodes fetched."),
    "ares_staged_bytes_total": Metric("counter", "Bytes of shipped files that nodes fetched."),
    "ares_transfer_waiting_bytes": Metric("gauge", "Bulk bytes that wait for their turn on agents of this replica."),
    "ares_transfer_breakers_open": Metric("gauge", "Endpoints that tenants' requests from nodes stay away from."),
    "ares_transfer_jobs_paused": Metric("gauge", "Jobs on nodes that wait for such an endpoint."),
    "ares_uploads_refused_total": Metric("counter", "Pieces of files of attempts that had been taken away: refused."),
    "ares_audit_entries_total": Metric("counter", "Entries written to the audit chain."),
    "ares_audit_lost_total": Metric("counter", "Audit entries lost while the disk took none."),
    "ares_alerts_total": Metric("counter", "Alerts raised, by kind.", ("kind",), 32),
    "ares_alert_deliveries_total": Metric("counter", "Notices sent to channels, by outcome.", ("outcome",), 4),
    "ares_traces_exported_total": Metric(
        "counter", "Traces of jobs that a collector took, by why they were sent.", ("reason",), 8
    ),
    "ares_exports_failed_total": Metric(
        "counter", "Batches that a collector did not take, by what: traces, metrics.", ("what",), 4
    ),
    "ares_traces_dropped_total": Metric("counter", "Traces of jobs that were not sent: too many waited."),
    "process_cpu_seconds_total": Metric("counter", "CPU time of this replica's process."),
    "process_resident_memory_bytes": Metric("gauge", "Memory of this replica's process."),
    "process_open_fds": Metric("gauge", "Files and sockets that this replica's process has open."),
}  # fmt: skip

GROUPS: Final[dict[str, dict[str, Metric]]] = {
    "Jobs and attempts": _JOBS,
    "Submission and the API": _API,
    "Scheduling and the queue": _SCHEDULER,
    "Fairness, deadlines, cost": _PROMISES,
    "Machines and their GPUs": _MACHINES,
    "This replica": _REPLICA,
}
METRICS: Final[dict[str, Metric]] = {name: metric for group in GROUPS.values() for name, metric in group.items()}
# The most lines that one replica may ever expose, whatever happens: what a scraper keeps is bounded by declaration.
SERIES_MAX: Final = 5000
