"""The `ares` command: which commands there are, and how errors look."""

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from ares import __version__
from ares.edge.cli.render.output import report

# gRPC's fork handlers crash children that a process with open channels starts; read when it is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

PROGRAM = "ares"

# Command -> its module. In the order of `ares --help`.
COMMANDS = {
    "up": "up", "down": "up", "ui": "ui", "doctor": "doctor", "submit": "submit", "jobs": "jobs", "show": "show",
    "logs": "logs", "outputs": "outputs", "checkpoints": "checkpoints", "resume": "checkpoints", "wait": "wait",
    "eff": "eff",
    "exec": "enter", "attach": "enter", "shell": "shell", "jupyter": "shell", "cp": "copy",
    "port-forward": "forward", "top": "top",
    "cancel": "steer", "hold": "steer", "release": "steer", "retry": "steer", "update": "steer",
    "requeue": "steer", "cron": "cron", "flow": "flow", "data": "data",
    "explain": "explain", "trace": "trace", "plan": "plan", "prio": "prio", "sla": "sla",
    "predict": "predict", "why-preempted": "preempted", "replay": "replay", "usage": "usage", "cost": "cost",
    "report": "report",
    "events": "events",
    "nodes": "nodes",
    "node": "nodes", "cluster": "cluster", "pools": "pools", "autoscale": "autoscale",
    "lease": "nodes", "reserve": "reserve", "reservations": "reserve",
    "reservation": "reserve", "consolidate": "drain", "profile": "profile", "plugins": "profile", "policy": "policy",
    "alert": "alert", "channel": "alert",
    "history": "history", "series": "series", "insights": "insights", "status": "status",
    "simulate": "simulate", "tune": "tune", "sim": "sim", "login": "login", "logout": "login", "whoami": "login",
    "tenant": "tenant", "quota": "quota", "user": "user", "role": "tenant", "token": "token", "secret": "secret",
    "server": "serve", "agent": "serve", "kube-agent": "kube", "kube": "kube",
    "store": "serve",
    "verify": "verify", "audit": "audit", "chaos": "chaos",
    "version": "about", "completion": "about",
}  # fmt: skip


# Modules whose commands are programs of this package; all others talk to a server and lie in `edge.cli.commands`.
PROGRAMS = frozenset(
    ("audit", "chaos", "doctor", "kube", "predict", "serve", "sim", "simulate", "tune", "up", "verify")
)


# Programs whose commands people type out of habit.
_PREFIXES = frozenset(("kubectl", "sky", "dstack", "slurm", "docker"))


class Commands(click.Group):
    """Loads a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name]
        package = "ares.app.commands" if module in PROGRAMS else "ares.edge.cli.commands"
        return getattr(import_module(f"{package}.{module}"), cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        from ares.edge.cli.hints import for_command

        # `ares kubectl get pods` and `ares get pods` mean the same.
        words = args[1:] if name in _PREFIXES and len(args) > 1 else args
        known = for_command(words) or (f"{PROGRAM} {words[0]}" if words[0] in COMMANDS else "")
        close = get_close_matches(name, COMMANDS, n=1)
        meant = known or (f"{PROGRAM} {close[0]}" if close else "")
        hint = f"did you mean `{meant}`?" if meant else f"`{PROGRAM} --help` lists the commands"
        raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--url",
    metavar="URL[,URL...]",
    help="Server to talk to, by any of its replicas. Otherwise ARES_URL, then where `ares login` or `ares up` was.",
)
@click.option("--tenant", metavar="NAME", help="Act in this tenant, with a role that may in others. Or ARES_TENANT.")
@click.option("--break-glass", metavar="REASON", help="Why you look into another tenant's contents; it is recorded.")
@click.version_option(__version__, "--version", message="%(version)s")
@click.pass_context
def cli(ctx: click.Context, url: str | None, tenant: str | None, break_glass: str | None) -> None:
    """Runs jobs on GPUs and CPUs, each to exactly one committed result.

    Start a platform on this machine with `ares up`, then:

    \b
      ares submit --gpus 2 --name train -- python train.py
      ares jobs
      ares logs -f JOB
    """
    ctx.obj = url


def main(arguments: list[str] | None = None) -> NoReturn:
    """The entry point."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code. Errors are two lines, unless ARES_DEBUG is set."""
    try:
        code = cli.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else PROGRAM
        if isinstance(error, click.NoSuchOption) and (way_out := _way_out(error)):
            # Options that are written alike are not what is meant.
            return report(f"there is no option {error.option_name}", way_out, 2)
        return report(error.format_message(), f"`{where} --help` shows how to use it", 2)
    except click.ClickException as error:
        return report(error.format_message(), "", 1)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader has seen enough. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("ARES_DEBUG"):
            raise
        return _unexpected(error)
    return code if isinstance(code, int) else 0


def _way_out(error: click.NoSuchOption) -> str:
    """What to write instead of an option that other tools have."""
    if error.ctx is None:
        return ""
    from ares.edge.cli.hints import for_option

    instead = for_option(error.ctx.info_name or "", error.option_name)
    return f"here it is {instead}" if instead else ""


def _unexpected(error: Exception) -> int:
    # Errors of our own say themselves what happened and what to do.
    if type(error).__module__.startswith("ares."):
        return report(str(error), getattr(error, "fix", ""), getattr(error, "exit_code", 1))
    if isinstance(error, OSError) and error.strerror:
        return report(f"{error.filename}: {error.strerror}" if error.filename else error.strerror, "", 1)
    return report(f"{type(error).__name__}: {error}", "set ARES_DEBUG=1 to see where, and report it", 1)
