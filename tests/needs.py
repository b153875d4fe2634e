"""What some tests need of the machine they run on, and what they say where it is missing: which gap there is, and what
would close it."""

from pathlib import Path

# Public traces and worked cases, kept beside the project and never in it.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def data(name: str) -> str:
    return f"NOT TESTED: {name} is not there. Put the data beside the project, as ../shared/data/{name}."


CGROUPS = (
    "NOT TESTED: limits need control groups that this user may make. Run it as root, or in a cgroup of its own "
    "(systemd-run --user --scope -p Delegate=yes)."
)
CGROUPS_V1 = (
    "NOT TESTED: needs control groups of version 1, as root (version 2 is tested on a pretended tree). Run it on "
    "a machine that was started with systemd.unified_cgroup_hierarchy=0."
)
NUMA = "NOT TESTED: needs a kernel with NUMA, on x86-64. Run it where /sys/devices/system/node exists."
PID_NAMESPACES = (
    "NOT TESTED: without PID namespaces this job would really kill everything. Run it as root, or where users may make "
    "namespaces (sysctl kernel.unprivileged_userns_clone=1)."
)
SANDBOX = (
    "NOT TESTED: this machine cannot make sandboxes. Run it as root, on Linux 5.12 or later, where containers may "
    "make namespaces and mounts."
)
