"""Slurm, tuned, on one loopback node with 64 slots: one array of N jobs, each a batch script that runs `true`."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from spent import cpu_s

SLOTS = 64
START_S = 30.0
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

CONFIG = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
PlugStackConfig={folder}/plugstack.conf
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/done
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=2000,sched_max_job_start=0
SlurmdParameters=config_overrides
MaxArraySize=100001
MaxJobCount=200000
MinJobAge=300
ReturnToService=2
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={slots} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
"""


def daemon(folder: Path, name: str, *arguments: str) -> None:
    path = shutil.which(name, path=PATH)
    if path is None:
        sys.exit(f"{name} is missing")
    with (folder / f"{name}.out").open("wb") as out:
        subprocess.Popen([path, *arguments], stdout=out, stderr=out)


def until(ready, what: str, folder: Path, timeout_s: float = START_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            logs = " ".join(p.read_text(errors="replace")[-150:] for p in sorted(folder.glob("*.log")))
            sys.exit(f"{what} not within {timeout_s:g} s; {' '.join(logs.split())}")
        time.sleep(0.02)


def completed(folder: Path) -> int:
    path = folder / "done"
    return path.read_bytes().count(b"JobState=COMPLETED") if path.exists() else 0


def node_is_idle(env: dict[str, str]) -> bool:
    asked = subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True, check=False)
    return asked.stdout.strip() == "idle"


def submit(folder: Path, env: dict[str, str], count: int) -> None:
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    command = ["sbatch", "-Q", "-o", "/dev/null", f"--array=0-{count - 1}", str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"sbatch: {done.stderr.strip()}")


def start(folder: Path) -> dict[str, str]:
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    (folder / "plugstack.conf").write_text("")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(folder=folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), slots=SLOTS)
    )
    env = {**os.environ, "SLURM_CONF": str(config), "PATH": PATH}
    os.environ.update(env)
    daemon(
        folder, "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
    )  # fmt: skip
    until((folder / "munge.socket").exists, "munged: no socket", folder)
    daemon(folder, "slurmctld", "-D", "-f", str(config))
    daemon(folder, "slurmd", "-D", "-N", "node", "-f", str(config))
    until(lambda: node_is_idle(env), "slurm: the node was not idle", folder)
    return env


def main(jobs: int, folder: Path) -> None:
    env = start(folder)
    submit(folder, env, 1)
    until(lambda: completed(folder) == 1, "slurm: the first job did not complete", folder)
    began, cpu = time.monotonic(), cpu_s()
    submit(folder, env, jobs)
    until(lambda: completed(folder) == jobs + 1, f"slurm: {jobs} jobs did not complete", folder, 600.0)
    print(json.dumps({"jobs": jobs, "seconds": time.monotonic() - began, "cpu_s": cpu_s() - cpu}))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
