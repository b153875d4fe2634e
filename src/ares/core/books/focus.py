"""Books as charges of FOCUS, the specification that programs for bills read."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from ares.api.books.costs import FocusRow
from ares.core.books.days import day_end, day_start
from ares.core.books.draft import used_on_the_day
from ares.core.quota.measures import month_end
from ares.model.books.book import BookLine, TenantBook

_HOUR_MS: Final = 3_600_000
_MICRO: Final = 1_000_000
# "No currency", by ISO 4217.
NO_CURRENCY: Final = 3 * "X"
_USES: Final = {"kept": "useful", "lost": "lost", "open": "running"}


def focus_rows(book: TenantBook, currency: str) -> Iterator[FocusRow]:
    """A charge for each team, pool, GPU model and use of the day."""
    for line in used_on_the_day(book):
        yield _charge(book, line, currency or NO_CURRENCY)


def _charge(book: TenantBook, line: BookLine, currency: str) -> FocusRow:
    cost, start = line.micro / _MICRO, day_start(book.day)
    by_gpu = bool(line.gpu_model)
    hours = (line.gpu_ms if by_gpu else line.cpu_ms) / _HOUR_MS
    unit = "GPU-Hours" if by_gpu else "vCPU-Hours"
    what, use = line.gpu_model or "CPU", _USES[line.fate]
    # A day takes back what the day before had accrued: such a charge corrects an earlier one.
    corrects = "Correction" if line.micro < 0 or line.gpu_ms < 0 or line.cpu_ms < 0 else None
    return FocusRow(
        billing_account_id=book.cluster,
        billing_account_name=book.cluster,
        billing_currency=currency,
        billing_period_start=_instant(_month_start(start)),
        billing_period_end=_instant(month_end(start)),
        charge_period_start=_instant(start),
        charge_period_end=_instant(day_end(book.day)),
        charge_category="Usage",
        charge_class=corrects,
        charge_description=f"{what} in pool {line.pool or '(not known)'}, {use}",
        charge_frequency="Usage-Based",
        billed_cost=cost,
        effective_cost=cost,
        list_cost=cost,
        contracted_cost=cost,
        consumed_quantity=hours,
        consumed_unit=unit,
        pricing_category="Standard",
        pricing_quantity=hours,
        pricing_unit=unit,
        provider_name="Ares",
        publisher_name="Ares",
        invoice_issuer_name="Ares",
        region_id=book.cluster,
        resource_id=f"{book.cluster}/{line.pool}",
        resource_name=line.pool,
        resource_type="Pool",
        service_category="Compute",
        service_name="Ares jobs",
        sku_id=f"{line.pool}/{what}",
        sub_account_id=book.tenant,
        sub_account_name=book.tenant,
        tags={"team": line.team or "default", "use": use, "incarnation": str(book.incarnation)},
    )


def _month_start(wall_s: float) -> float:
    return datetime.fromtimestamp(wall_s, UTC).replace(day=1, hour=0, minute=0, second=0).timestamp()


def _instant(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
