"""`ares predict`: how long a job would run, when it would start, and how good such answers have been."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.job_flags import asked, job_options, layers
from ares.edge.cli.render.output import output_option, print_objects, tell
from ares.edge.cli.render.text import duration, printable

if TYPE_CHECKING:
    from ares.api.predictions import Accuracy, Hits, JobPrediction, ModelView, PredictionReport

_FORMAT = "swf, alibaba, philly, easy, deadlines or history.  [default: seen from the file]"
_TRACE = "Of like jobs' runs on the jobs of this file instead, without a server."
_HISTORY = "like jobs' runs"
# More than any model of ours.
_MODEL_MAX = 8 * 1024 * 1024


@click.group()
def predict() -> None:
    """Predicts run times and starts, and tells how good that was."""


@predict.command("job", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@job_options
@output_option("table", "json", "yaml")
@click.pass_context
def predict_job(ctx: click.Context, command: tuple[str, ...], output: str, **flags: Any) -> None:
    """Says how long a job would run and when it would start.

    As if it were submitted now; nothing is changed.

    \b
      ares predict job -f job.yaml
      ares predict job --gpus 8 --name train --time 4h -- python train.py

    Both are intervals that four of five jobs like it fall into.
    """
    from ares.edge.client.calls import predictions

    call = predictions.job(asked(layers(command, flags)))
    tell(connect(ctx), call, lambda found: "\n".join(job_lines(found, time.time())), output)


@predict.command("error")
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help=_TRACE)
@click.option("--format", "format_", metavar="NAME", help=_FORMAT)
@output_option("table", "json", "yaml")
@click.pass_context
def predict_error(ctx: click.Context, trace: Path | None, format_: str | None, output: str) -> None:
    """Shows how far predictions were from what came.

    As this platform has measured it itself: of run times by what was said when a job came; of starts by
    the interval that a job which had to wait was told first, and by the latest. Four of five intervals
    are meant to hold.
    """
    if trace is not None:
        found = _score(trace, format_)
        if not print_objects(output, _plain(found), lambda _: []):
            for line in score_lines(found):
                click.echo(line)
        return
    from ares.edge.client.calls import predictions

    tell(connect(ctx), predictions.report(), lambda found: "\n".join(error_lines(found)), output)


def _score(trace: Path, format_: str | None) -> Any:
    from ares.app.commands.trace_flags import readable
    from ares.sim import learn
    from ares.sim.traces import formats

    with readable():
        return learn.score(formats.read(trace, format_))


def _plain(record: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(record)


@predict.command("train")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", required=True, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Where.")
@click.option("--format", "format_", metavar="NAME", help=_FORMAT)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="The same gives the same model.")
@output_option("table", "json")
def predict_train(trace: Path, write: Path, format_: str | None, seed: int, output: str) -> None:
    """Trains a model of run times on TRACE.

    That is a file of jobs as `ares simulate` reads them.

    \b
      ares predict train history.jsonl --write model.json
      ares predict install model.json

    On this machine, without a server; it needs the extra: pip install 'ares-platform[ml]'. The later
    part of the trace is kept apart to compare the model with what like jobs' runs say.
    """
    import msgspec

    from ares.app.commands.trace_flags import readable
    from ares.sim import learn
    from ares.sim.traces import formats

    with readable():
        try:
            model = learn.train(formats.read(trace, format_), seed)
        except learn.CannotTrain as error:
            raise click.ClickException(str(error)) from None
    write.write_bytes(msgspec.json.encode(model))
    raw: Any = _plain({"heldOut": model.held_out, "better": model.held_out.better, "file": str(write)})
    if not print_objects(output, raw, lambda _: []):
        for line in held_out_lines(model.held_out):
            click.echo(line)
        verdict = (
            "better by both" if model.held_out.better else "not better by both: it would be installed and not used"
        )
        click.echo(f"wrote {write}: {verdict}")


@predict.command("install")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_option("table", "json")
@click.pass_context
def predict_install(ctx: click.Context, model: Path, output: str) -> None:
    """Installs a model that `ares predict train` wrote.

    It is used if it was better than like jobs' runs on jobs it had not seen.
    """
    from ares.edge.client.calls import predictions

    if model.stat().st_size > _MODEL_MAX:
        raise click.ClickException(f"{model} is too large for a model of run times")
    call = predictions.install(model.read_bytes())
    tell(connect(ctx), call, lambda installed: f"installed: {model_words(installed)}", output)


@predict.command("remove")
@click.pass_context
def predict_remove(ctx: click.Context) -> None:
    """Removes the installed model: like jobs' runs count again."""
    from ares.edge.client.calls import predictions

    connect(ctx).send(predictions.remove())
    click.echo("removed: like jobs' runs count again")


# ---- lines for people


def job_lines(found: "JobPrediction", now: float) -> list[str]:
    from ares.edge.cli.render.explanation import starts

    runs = found.runtime
    if runs is None:
        run = "nobody can say: it states no run time or limit, and no job like it has ended yet"
    else:
        run = f"{duration(runs.seconds)}, {duration(runs.low)} to {duration(runs.high)}: {runs.basis}"
    start = "" if found.starts is None else starts(found.starts, now)
    return [f"  {label:<8}{printable(text)}" for label, text in (("Runs", run), ("Starts", start)) if text]


def error_lines(found: "PredictionReport") -> list[str]:
    policy = found.policy
    rows = [
        ("Run times", _accuracy(found.runtimes)),
        ("", f"{found.kinds:,} kinds of jobs known"),
        ("Starts", _hits(found.starts.first, "by what they were told first")),
        ("", _hits(found.starts.latest, "by what they were told last")),
        ("Policy", f"source {policy.source}, correction {policy.correction}, from {policy.min_samples} run on"),
        ("Model", "none" if found.model is None else model_words(found.model)),
    ]
    return [f"  {label:<11}{printable(text)}" for label, text in rows]


def _accuracy(found: "Accuracy") -> str:
    if not found.jobs or found.within is None or found.median_relative_error is None:
        return "no job has ended that anything was said about"
    return (
        f"{found.jobs:,} jobs, off by {duration(found.mean_absolute_error_s)} in the mean and by"
        f" {found.median_relative_error:.0%} in the median; {found.within:.0%} within the interval (80% is meant)"
    )


def score_lines(found: Any) -> list[str]:
    from ares.edge.cli.render.table import layout

    rows = (
        (
            words, f"{said.jobs:,}", f"{said.mean_absolute_error_s:,.0f} s",
            "" if said.median_relative_error is None else f"{said.median_relative_error:.0%}",
            f"{said.within:.1%}" if words == _HISTORY and said.within is not None else "",
        )
        for words, said in ((_HISTORY, found.history), ("what jobs state", found.stated))
    )  # fmt: skip
    return layout(("SAID BY", "JOBS", "MEAN ERROR", "MEDIAN OFF BY", "WITHIN (80% IS MEANT)"), rows)


def _hits(found: "Hits", words: str) -> str:
    if found.rate is None:
        return f"no job that had to wait has started yet, {words}"
    return f"{found.rate:.0%} of {found.given:,} that had to wait started within the interval, {words} (80% is meant)"


def model_words(model: "ModelView") -> str:
    use = "used" if model.used else "not used, as it was not better"
    return f"{model.trees} trees trained on {model.trained_on:,} runs of {model.source or 'a trace'}; {use}"


def held_out_lines(found: Any) -> list[str]:
    from ares.edge.cli.render.table import layout

    rows = (
        ("model", f"{found.model_mae_s:,.0f} s", f"{found.model_distance:.3f}"),
        ("like jobs' runs", f"{found.history_mae_s:,.0f} s", f"{found.history_distance:.3f}"),
    )
    return [f"{found.jobs:,} later jobs, not seen in training", *layout(("SAID BY", "MEAN ERROR", "|LOG RATIO|"), rows)]
