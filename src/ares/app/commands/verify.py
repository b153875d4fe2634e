"""`ares verify`: whether the store keeps what Ares promises."""

import time
from functools import partial
from typing import Any

import click

from ares.app.commands.configured import configured, load
from ares.edge.cli.render.output import output_option, print_objects, report
from ares.edge.cli.render.progress import Bars
from ares.edge.cli.render.text import printable

_CANNOT_READ = 2
_DAY_S = 86_400.0
_COPIED, _READ = 0, 1


@click.command()
@click.option("--store", metavar="URL", help="sqlite:///PATH or etcd://HOST:PORT.  [default: as the server's]")
@click.option("--tenant", metavar="NAME", help="Only the jobs of this tenant.")
@click.option("--job", metavar="ID", help="Only this job, by its full id.")
@click.option("--outputs", is_flag=True, help="Also compare digests of files that jobs handed over, or start with.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_option("table", "json")
@configured
def verify(
    store: str | None, tenant: str | None, job: str | None, outputs: bool, quiet: bool, output: str, **where: Any
) -> int:
    """Checks the store of record, and changes nothing.

    Run it where the server runs, with the server's configuration; the server may be running. It reads
    the store as it is at one moment: every job's ledger, state and result, request ids, arrays, fences, what
    is given away on machines and booked ahead, tokens. The checks know the records, not the code that
    writes them.

    \b
      ares verify
      ares verify --store etcd://10.0.0.1:2379 --tenant alpha --output json

    Exit code 0 if all is as promised, 1 if something is not, 2 if the store cannot be read.
    """
    from ares.app import store as store_module
    from ares.check.store import verify
    from ares.ports.store import StoreError

    config = load({"store.url": store}, **where)
    wanted = verify.VerifyOptions(
        now=time.time(),
        keep_s=config.limits.keep_days * _DAY_S,
        tenant=tenant or "",
        job=job or "",
        output_flaws=store_module.output_flaws(config) if outputs else None,
        project_flaws=store_module.project_flaws(config) if outputs else None,
    )
    try:
        with (
            Bars(("pages to copy", "records to check"), "done", quiet=quiet or output == "json") as bars,
            store_module.look(config, partial(bars.show, _COPIED)) as snapshot,
        ):
            found = verify.verify(snapshot, wanted, partial(bars.show, _READ))
    except StoreError as error:
        return report(str(error), "check the store's URL (--store), and that this user may read it", _CANNOT_READ)
    except verify.UnknownJob as error:
        return report(str(error), error.fix, _CANNOT_READ)
    if not print_objects(output, plain(found, config.store_url), lambda _: []):
        print_report(found, config.store_url)
    return 1 if found.violations else 0


def plain(found: Any, store: str) -> dict[str, Any]:
    import msgspec

    return {"store": store, "violations": found.violations, **msgspec.to_builtins(found)}


def print_report(found: Any, store: str) -> None:
    click.echo(f"{store} at revision {found.revision}, epoch {found.epoch}: {found.jobs:,} jobs\n")
    width = max(len(check.name) for check in found.checks)
    for check in found.checks:
        verdict = f"{check.violations:,} wrong" if check.violations else "ok"
        click.echo(f"{check.name:{width}}  {verdict:>9}  {check.looked_at:>9,}  {check.promise}")
    for check in found.checks:
        if check.violations:
            click.echo(f"\n{check.name}: {check.violations:,} violations")
            for what in check.first:
                click.echo(f"  {printable(what)}")
            if check.violations > len(check.first):
                click.echo(f"  and {check.violations - len(check.first):,} more")
    for note in found.notes:
        click.echo(f"note: {printable(note)}", err=True)
    verdict = f"{found.violations:,} violations" if found.violations else "everything is as promised"
    click.echo(f"\n{verdict}")
