"""Commands and options of Slurm, Kubernetes, SkyPilot, dstack and Docker: what does the same here.

Looked up only when a command line was refused. `docs/guides/coming-from-slurm.md` has whole tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Final

# What is typed as a command elsewhere -> what to type here.
COMMANDS: Final[Mapping[str, str]] = {
    # Slurm
    "sbatch": "ares submit -- COMMAND", "srun": "ares submit --follow -- COMMAND",
    "squeue": "ares jobs", "scancel": "ares cancel JOB", "sacct": "ares jobs --since 1d", "seff": "ares eff JOB",
    "sinfo": "ares nodes", "sprio": "ares prio", "sshare": "ares usage", "sreport": "ares usage",
    "scrontab": "ares cron add NAME",
    "sstat": "ares show JOB", "scontrol": "ares show JOB", "sattach": "ares attach JOB", "sbcast": "ares cp FILE JOB:",
    "salloc": "ares shell",
    # kubectl
    "get": "ares jobs", "describe": "ares show JOB", "apply": "ares submit -f FILE", "create": "ares submit -f FILE",
    "delete": "ares cancel JOB", "rollout": "ares retry JOB",
    "cordon": "ares node cordon NODE", "uncordon": "ares node uncordon NODE", "drain": "ares node drain NODE",
    "taint": "ares node taint NODE", "config": "ares login",
    # SkyPilot, dstack, Docker and others
    "launch": "ares submit -- COMMAND", "run": "ares submit -- COMMAND", "queue": "ares jobs", "ps": "ares jobs",
    "ls": "ares jobs", "list": "ares jobs", "stop": "ares cancel JOB", "kill": "ares cancel JOB",
    "rm": "ares cancel JOB", "start": "ares up", "init": "ares up", "show-gpus": "ares pools",
    "offer": "ares plan --gpus N -- COMMAND", "fleet": "ares nodes", "check": "ares doctor", "info": "ares doctor",
    "tail": "ares logs -f JOB", "log": "ares logs JOB", "stats": "ares top",
    "ssh": "ares exec -it JOB -- bash", "scp": "ares cp JOB:PATH LOCAL", "rsync": "ares cp JOB:PATH LOCAL",
    "expose": "ares port-forward JOB PORT", "notifications": "ares channel list", "notify": "ares channel set NAME",
    "flows": "ares flow show FLOW", "workflow": "ares flow show FLOW", "accounting": "ares usage",
}  # fmt: skip
# Commands with a word behind them that says what is meant.
PHRASES: Final[Mapping[tuple[str, str], str]] = {
    ("get", "nodes"): "ares nodes", ("get", "node"): "ares node show NODE", ("get", "events"): "ares events JOB",
    ("get", "secrets"): "ares secret list", ("get", "pods"): "ares jobs", ("get", "jobs"): "ares jobs",
    ("describe", "node"): "ares node show NODE", ("create", "secret"): "ares secret set NAME",
    ("scontrol", "hold"): "ares hold JOB", ("scontrol", "release"): "ares release JOB",
    ("scontrol", "requeue"): "ares requeue JOB", ("scontrol", "update"): "ares update JOB",
    ("create", "cronjob"): "ares cron add NAME", ("scontrol", "ping"): "ares doctor",
    ("apply", "-f"): "ares submit -f FILE", ("srun", "--pty"): "ares shell",
}  # fmt: skip
# Options of `sbatch`, `kubectl run` and `sky launch` -> those of `ares submit`.
SUBMIT: Final[Mapping[str, str]] = {
    "--wrap": "put the command behind --: ares submit -- sh -c 'COMMAND'", "--job-name": "--name", "-J": "--name",
    "--cpus-per-task": "--cpus", "--ntasks": "--ranks", "-n": "--ranks", "--nodes": "--ranks, with --per-node 1",
    "-N": "--ranks, with --per-node 1", "--ntasks-per-node": "--per-node", "--num-nodes": "--ranks, with --per-node 1",
    "--mem-per-cpu": "--memory, of the whole job", "--gres": "--gpus N, with --gpu-model", "-G": "--gpus",
    "--gpus-per-node": "--gpus, of each rank", "--gpus-per-task": "--gpus, of each rank",
    "--accelerators": "--gpus N, with --gpu-model", "--constraint": "--selector KEY=VALUE, or --require",
    "-p": "--selector KEY=VALUE, or --require", "--partition": "--selector KEY=VALUE, or --require",
    "--account": "--team", "-A": "--team", "--nodelist": "--require", "-w": "--require", "--exclude": "--require",
    "--dependency": "--after ok:JOB", "-d": "--after ok:JOB", "-t": "--time", "--signal-before": "--signal",
    "--mail-type": "--notify CHANNEL:fail; see `ares channel set`",
    "--mail-user": "--notify CHANNEL; see `ares channel set`",
    "--output-file": "nothing: `ares logs JOB` has it", "--error": "nothing: `ares logs JOB` has it",
    "--export": "--env", "--requeue": "--retries N", "--no-requeue": "--retries 0", "--exclusive": "--cpus",
    "--license": "--licence", "--licenses": "--licence", "-L": "--licence", "--workspace": "--chdir",
    "--nice": "--priority", "--use-spot": "--tolerate, for the taint of spot machines", "--restart-policy": "--restart",
}  # fmt: skip


def for_command(words: Sequence[str]) -> str:
    """What to type instead, for a command line that begins with these words; empty when it is not known."""
    if len(words) > 1 and (words[0], words[1]) in PHRASES:
        return PHRASES[words[0], words[1]]
    return COMMANDS.get(words[0], "")


def for_option(command: str, option: str) -> str:
    """What to write instead of an option that the command does not have; empty when it is not known."""
    return SUBMIT.get(option, "") if command in ("submit", "plan") else ""
