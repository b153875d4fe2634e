"""Every key of the store of record, written once.

Tenants' keys begin with the tenant after the kind, so that one prefix is one tenant's world. A job's id
ends with its time, so that a few leading characters tell jobs apart; in keys the time comes first, so
that jobs of one moment lie side by side and share pages of the store.
"""

import hashlib
from functools import lru_cache

from ares.model.checkpoint import CheckpointId

ID_RANDOM_CHARS = 9
ID_TIME_CHARS = 7

ROOT = "/"
JOBS = "/jobs/"
STATE = "/state/"
REQUESTS = "/requests/"
EVENTS = "/events/"
RESULTS = "/results/"
RETRY = "/retry/"
NODES = "/nodes/"
LEASES = "/leases/"
REMOVED_NODES = "/removed-nodes/"
TOKENS = "/tokens/"
TENANTS = "/tenants/"
USERS = "/users/"
SECRETS = "/secrets/"
CRONS = "/crons/"
DATASETS = "/datasets/"
# By the digest of the identity that a provider vouches for.
IDENTITIES = "/identities/"
# Nodes and clusters by their certificates, "/machines/node/NAME".
MACHINES = "/machines/"
# The authority that signs these certificates.
AUTHORITY = "/authority"
LEADER = "/leader/"
ARRAYS = "/arrays/"
FLOWS = "/flows/"
PROGRESS = "/progress/"
# Checkpoints that are kept, "/checkpoints/TENANT/JOB/FENCE/NUMBER", and those of gangs that are not whole yet.
CHECKPOINTS = "/checkpoints/"
SEALING = "/sealing/"
PROFILES = "/profiles/"
# The profile that is tried without being in force; one at most.
SHADOW = "/shadow"
RESERVATIONS = "/reservations/"
# Machines that were bought, and whether a pool may buy any.
INSTANCES = "/instances/"
SCALING = "/scaling/"
POLICIES = "/policies/"
# Every version of each policy that is kept.
POLICY_HISTORY = "/policy-history/"
ALERTS = "/alerts/"
# For the audit chains on replicas' disks: how far each had come, and the public keys that heads are signed by.
AUDIT_HEADS = "/audit-heads/"
AUDIT_KEYS = "/audit-keys/"
QUOTAS = "/quotas/"
# Written with every job of a tenant that has a quota: of two admissions at once, one looks again.
ADMISSIONS = "/admissions/"
# What forgotten jobs used in a month that is not over.
SPENT = "/spent/"
# What each replica has served in a month.
METERS = "/meters/"
# Daily books of tenants, "/books/TENANT/DAY", and of the platform; how far they are closed; and what pools have on days
# that are not.
BOOKS = "/books/"
PLATFORM_BOOKS = "/platform-books/"
CLOSINGS = "/closings/"
CAPACITY = "/capacity/"
# Of a global plane: what its clusters told of theirs, "/told-books/CLUSTER/TENANT/DAY/EPOCH" and
# "/told-days/CLUSTER/DAY/EPOCH", and how far each has come.
TOLD_BOOKS = "/told-books/"
TOLD_DAYS = "/told-days/"
TELLINGS = "/tellings/"
# The name of the one record of closings.
BOOKS_CLOSING = "books"
# What nodes move now, by the replica that they are connected to.
TRANSFERS = "/transfers/"
# What each replica says of itself.
REPLICAS = "/replicas/"
CHANNELS = "/channels/"
# Of a global plane: its clusters, and what each last said of itself.
CLUSTERS = "/clusters/"
REPORTS = "/reports/"
# Of a cluster: the jobs of its global plane, "/taken/TENANT/JOB", and where the global plane is.
TAKEN = "/taken/"
# What each cluster is lent of tenants' quotas, "/escrow/CLUSTER/TENANT", and what a cluster itself was lent.
ESCROW = "/escrow/"
ALLOWANCES = "/allowances/"
UPLINK = "/uplink"
# Of jobs' ends, until they were sent.
NOTICES = "/notices/"
# Episodes in which a series was odd.
INSIGHTS = "/insights/"
# Written with every booking: of two that are made at once, one looks again.
BOOKINGS = "/bookings"
# What was learned about start times.
PREDICTIONS = "/predictions"
# A trained model of run times.
PREDICTION_MODEL = "/prediction-model"
EPOCH = "/epoch"
# The newest epoch in which nothing from before its restore can run any more.
SETTLED = "/settled"
# Written to find out whether the store takes writes.
PROOF = "/proof"
# Proof that there was a first administrator: no other is made, whatever became of the first.
BOOTSTRAP = "/bootstrap"
# The time when the leader last looked.
CLOCK = "/clock"
# By which format records are written, see core/store_format.py.
FORMAT = "/format"


def job(tenant: str, job_id: str) -> str:
    """The specification of a job or of a whole array."""
    return f"{JOBS}{tenant}/{_turned(job_id)}"


def state(tenant: str, job_id: str) -> str:
    return f"{STATE}{tenant}/{_turned(job_id)}"


def request(tenant: str, request_id: str) -> str:
    return f"{REQUESTS}{tenant}/{request_id}"


def event(tenant: str, job_id: str, seq: int) -> str:
    return f"{EVENTS}{tenant}/{_turned(job_id)}/{seq:010d}"


def job_events(tenant: str, job_id: str) -> str:
    return f"{EVENTS}{tenant}/{_turned(job_id)}/"


def tenant_events(tenant: str) -> str:
    return f"{EVENTS}{tenant}/"


def is_event_tail(text: str) -> bool:
    """Whether the text may be the rest of an event's key after its tenant's prefix, or is empty."""
    return len(text) <= 64 and all(char.isascii() and (char.isalnum() or char in "_/") for char in text)


def checkpoint(tenant: str, job_id: str, checkpoint_id: CheckpointId) -> str:
    """In the order of checkpoints: a store sorts keys by their letters."""
    fence = checkpoint_id.fence
    tail = f"{fence.epoch:010d}.{fence.counter:010d}/{checkpoint_id.seq:019d}"
    return f"{CHECKPOINTS}{tenant}/{_turned(job_id)}/{tail}"


def job_checkpoints(tenant: str, job_id: str) -> str:
    return f"{CHECKPOINTS}{tenant}/{_turned(job_id)}/"


def sealing(tenant: str, job_id: str) -> str:
    return f"{SEALING}{tenant}/{_turned(job_id)}"


def result(tenant: str, job_id: str) -> str:
    return f"{RESULTS}{tenant}/{_turned(job_id)}"


def retry(tenant: str, root_job_id: str) -> str:
    return f"{RETRY}{tenant}/{_turned(root_job_id)}"


def node(name: str) -> str:
    return f"{NODES}{name}"


def lease(node_name: str) -> str:
    return f"{LEASES}{node_name}"


def removed_node(name: str) -> str:
    return f"{REMOVED_NODES}{name}"


def token(token_id: str) -> str:
    return f"{TOKENS}{token_id}"


def tenant(name: str) -> str:
    return f"{TENANTS}{name}"


def user(tenant_name: str, name: str) -> str:
    return f"{USERS}{tenant_name}/{name}"


def identity(text: str) -> str:
    """The key for "issuer subject", which may be long and hold any character."""
    return f"{IDENTITIES}{hashlib.sha256(text.encode()).hexdigest()}"


def machine(role: str, name: str) -> str:
    return f"{MACHINES}{role}/{name}"


def secret(tenant_name: str, name: str) -> str:
    return f"{SECRETS}{tenant_name}/{name}"


def cron(tenant_name: str, name: str) -> str:
    return f"{CRONS}{tenant_name}/{name}"


def dataset(tenant_name: str, name: str) -> str:
    return f"{DATASETS}{tenant_name}/{name}"


def leader(cluster: str) -> str:
    return f"{LEADER}{cluster}"


def array(tenant: str, array_id: str) -> str:
    return f"{ARRAYS}{tenant}/{_turned(array_id)}"


def flow(tenant: str, flow_id: str) -> str:
    return f"{FLOWS}{tenant}/{_turned(flow_id)}"


def progress(tenant: str, job_id: str) -> str:
    return f"{PROGRESS}{tenant}/{_turned(job_id)}"


def profile(version: int) -> str:
    return f"{PROFILES}{version:010d}"


def instance(instance_id: str) -> str:
    return f"{INSTANCES}{instance_id}"


def scaling(pool: str) -> str:
    return f"{SCALING}{pool}"


def reservation(name: str) -> str:
    return f"{RESERVATIONS}{name}"


def scoped(tenant_name: str, name: str) -> str:
    """The end of a key of what a tenant owns, or without a tenant the platform. No tenant can be called "-"."""
    return f"{tenant_name or '-'}/{name}"


def policy(tenant_name: str, name: str) -> str:
    return f"{POLICIES}{scoped(tenant_name, name)}"


def policy_versions(tenant_name: str, name: str) -> str:
    return f"{POLICY_HISTORY}{scoped(tenant_name, name)}/"


def policy_version(tenant_name: str, name: str, version: int) -> str:
    return f"{policy_versions(tenant_name, name)}{version:010d}"


def audit_head(chain: str, seq: int) -> str:
    return f"{AUDIT_HEADS}{chain}/{seq:016d}"


def audit_key(key_id: str) -> str:
    return f"{AUDIT_KEYS}{key_id}"


def alert(tenant_name: str, alert_id: str) -> str:
    return f"{ALERTS}{scoped(tenant_name, alert_id)}"


def notice(tenant_name: str, job_id: str) -> str:
    return f"{NOTICES}{scoped(tenant_name, job_id)}"


def channel(tenant_name: str, name: str) -> str:
    return f"{CHANNELS}{scoped(tenant_name, name)}"


def cluster(name: str) -> str:
    return f"{CLUSTERS}{name}"


def report(cluster_name: str) -> str:
    return f"{REPORTS}{cluster_name}"


def taken(tenant: str, job_id: str) -> str:
    return f"{TAKEN}{tenant}/{_turned(job_id)}"


def escrow(cluster_name: str, tenant_name: str) -> str:
    return f"{ESCROW}{cluster_name}/{tenant_name}"


def allowance(tenant_name: str) -> str:
    return f"{ALLOWANCES}{tenant_name}"


def quota(tenant_name: str) -> str:
    return f"{QUOTAS}{tenant_name}"


def admission(tenant_name: str) -> str:
    return f"{ADMISSIONS}{tenant_name}"


def spent(tenant_name: str, month: str) -> str:
    return f"{SPENT}{tenant_name}/{month}"


def meter(tenant_name: str, month: str, replica: str) -> str:
    return f"{METERS}{tenant_name}/{month}/{replica}"


def book(tenant_name: str, day: str) -> str:
    return f"{BOOKS}{tenant_name}/{day}"


def platform_book(day: str) -> str:
    return f"{PLATFORM_BOOKS}{day}"


def told_book(cluster_name: str, tenant_name: str, day: str, epoch: int) -> str:
    return f"{TOLD_BOOKS}{cluster_name}/{tenant_name}/{day}/{epoch:010d}"


def told_day(cluster_name: str, day: str, epoch: int) -> str:
    return f"{TOLD_DAYS}{cluster_name}/{day}/{epoch:010d}"


def telling(cluster_name: str) -> str:
    return f"{TELLINGS}{cluster_name}"


def closing(name: str) -> str:
    return f"{CLOSINGS}{name}"


def insight(name: str) -> str:
    return f"{INSIGHTS}{name}"


def capacity(day: str) -> str:
    return f"{CAPACITY}{day}"


def transfer(replica: str) -> str:
    return f"{TRANSFERS}{replica}"


def replica(name: str) -> str:
    return f"{REPLICAS}{name}"


def kind_of(key: str) -> str:
    """The leading part of a key that names its kind, such as "/state/"."""
    end = key.find("/", 1)
    return key if end < 0 else key[: end + 1]


@lru_cache(maxsize=4096)
def job_of(key: str) -> str:
    """The id at the end of a job's or an array's key."""
    base, task, number = key[key.rindex("/") + 1 :].partition("_")
    if len(base) == ID_RANDOM_CHARS + ID_TIME_CHARS:
        base = base[ID_TIME_CHARS:] + base[:ID_TIME_CHARS]
    return f"{base}{task}{number}"


# Each change of a job writes several keys with its id.
@lru_cache(maxsize=4096)
def _turned(job_id: str) -> str:
    base, task, number = job_id.partition("_")
    if len(base) == ID_RANDOM_CHARS + ID_TIME_CHARS:
        base = base[ID_RANDOM_CHARS:] + base[:ID_RANDOM_CHARS]
    return f"{base}{task}{number}"
