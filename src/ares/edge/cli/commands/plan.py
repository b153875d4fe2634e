"""`ares plan`: what would happen if a job were submitted."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.job_flags import asked, job_options, layers
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.api.decisions import Offer, PlanAnswer

# The exit code that says "it would wait". Documented in docs/cli.md.
WOULD_WAIT = 3


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@job_options
@output_option("table", "json", "yaml")
@click.pass_context
def plan(ctx: click.Context, command: tuple[str, ...], output: str, **flags: Any) -> None:
    """Says what would happen if a job were submitted now. Changes nothing.

    \b
      ares plan -f job.yaml
      ares plan --gpus 8 --gpu-model H100 -- python train.py

    Whether it would start now and where; other ways to run it, by start and price; whom it would
    displace; and the smallest change that would start it now. At a global plane also which of its
    clusters it would go to, by which terms, and why others could not take it. Exit code 0 if it would start now,
    3 if it would wait.
    """
    from msgspec import structs

    from ares.edge.client.calls import predictions
    from ares.edge.client.calls.projects import image_to_ship

    spec = asked(layers(command, flags))
    if (image := image_to_ship(spec)) is not None:
        # Its files are not shipped for this, and do not decide anything.
        spec = structs.replace(spec, image=structs.replace(image, project="0" * 64))
    call = predictions.plan(spec)
    raw: Any = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda _: []):
        for line in page(call.read(raw), time.time()):
            click.echo(line)
        if spec.array is not None:
            click.echo(f"this is for one task of the array {spec.array}; each of the others needs as much")
    ctx.exit(0 if raw["startsNow"] else WOULD_WAIT)


def page(found: "PlanAnswer", now: float) -> list[str]:
    """The lines for people."""
    from ares.edge.cli.render import routing
    from ares.edge.cli.render.changes import as_typed
    from ares.edge.cli.render.explanation import REMEDIES, section, when
    from ares.edge.cli.render.text import memory, printable

    lines = [f"would {'' if found.starts_now else 'not '}start now"]
    facts = [
        ("Reason", "" if found.reason is None else f"{found.reason.code}: {found.reason.message}"),
        ("Whose move", "" if found.starts_now else REMEDIES.get(found.remedy or "", "")),
        ("Memory", "" if not found.default_memory_mib else f"{memory(found.default_memory_mib)}, as it does not say"),
        ("Queue", f"{found.ahead} waiting already; those of higher rank go first" if found.ahead else ""),
        ("Preempting", found.no_eviction),
        ("Policies", "; ".join(found.warnings)),
        ("Deadline", "" if found.deadline is None else found.deadline.message),
        ("Start now", "" if found.change is None else f"{found.change.message}: {as_typed(found.change.fields)}"),
    ]
    lines += [f"  {label:<12}{printable(text)}" for label, text in facts if text]
    offers = (
        (offer.asked, when(offer.starts, now), _price(offer), places(offer), offer.starts.basis)
        for offer in found.offers
    )
    lines += section("Ways to run it", ("ASKED", "STARTS", "PER HOUR", "WHERE", "BECAUSE"), offers)
    if found.deadline is not None:
        met = ((as_typed(way.fields), way.message) for way in found.deadline.ways)
        lines += section("Ways to meet the deadline", ("CHANGE", "THEN"), met)
    lines += [] if found.routing is None else routing.lines(found.routing, now)
    lines += [] if found.eviction is None else displaced(found.eviction, "It would displace")
    return [*lines, "", f"nothing was changed (revision {found.revision}, profile {found.profile_version})"]


def displaced(record: dict[str, Any], title: str) -> list[str]:
    """The jobs that would be preempted, why and at what cost."""
    from ares.edge.cli.render.explanation import section
    from ares.edge.cli.render.text import amount, duration

    rows = [
        (
            victim["job"],
            victim["priority"],
            amount(victim["gpus"]),
            duration(victim["ranS"]),
            f"{victim['lostGpuS']:,.0f}",
        )
        for victim in record.get("victims", ())
    ]
    others = record.get("victimsOfOthers", 0)
    rows += [(f"{others} of other tenants", "", "", "", "")] if others else []
    cost = (
        f"{record.get('lostGpuS', 0.0):,.0f} GPU-seconds of work repeated, {record.get('evictedGpus', 0):g} GPUs freed"
    )
    header = ("JOB", "PRIORITY", "GPUS", "RAN", "LOST GPU-S")
    return section(f"{title} ({record.get('why', '')}; {cost})", header, rows)


def _price(offer: "Offer") -> str:
    return "" if offer.price_hour is None else f"{offer.price_hour:,.2f}"


def places(offer: "Offer") -> str:
    from ares.edge.cli.render.job_cells import placed

    return placed(offer.placements)
