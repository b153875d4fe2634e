"""Every key of the store of record, written once.

Tenants' keys begin with the tenant after the kind, so that one prefix is one tenant's world.
"""

ROOT = "/"
JOBS = "/jobs/"
STATE = "/state/"
REQUESTS = "/requests/"
EVENTS = "/events/"
RESULTS = "/results/"
RETRY = "/retry/"
NODES = "/nodes/"
LEASES = "/leases/"
TOKENS = "/tokens/"
LEADER = "/leader/"
ARRAYS = "/arrays/"
PROGRESS = "/progress/"
EPOCH = "/epoch"


def job(tenant: str, job_id: str) -> str:
    """The specification of a job or of a whole array."""
    return f"{JOBS}{tenant}/{job_id}"


def state(tenant: str, job_id: str) -> str:
    return f"{STATE}{tenant}/{job_id}"


def request(tenant: str, request_id: str) -> str:
    return f"{REQUESTS}{tenant}/{request_id}"


def event(tenant: str, job_id: str, seq: int) -> str:
    return f"{EVENTS}{tenant}/{job_id}/{seq:06d}"


def job_events(tenant: str, job_id: str) -> str:
    return f"{EVENTS}{tenant}/{job_id}/"


def result(tenant: str, job_id: str) -> str:
    return f"{RESULTS}{tenant}/{job_id}"


def retry(tenant: str, root_job_id: str) -> str:
    return f"{RETRY}{tenant}/{root_job_id}"


def node(name: str) -> str:
    return f"{NODES}{name}"


def lease(node_name: str) -> str:
    return f"{LEASES}{node_name}"


def token(token_id: str) -> str:
    return f"{TOKENS}{token_id}"


def leader(cluster: str) -> str:
    return f"{LEADER}{cluster}"


def array(tenant: str, array_id: str) -> str:
    return f"{ARRAYS}{tenant}/{array_id}"


def progress(tenant: str, job_id: str) -> str:
    return f"{PROGRESS}{tenant}/{job_id}"


def kind_of(key: str) -> str:
    """The leading part of a key that names its kind, such as "/state/"."""
    end = key.find("/", 1)
    return key if end < 0 else key[: end + 1]
