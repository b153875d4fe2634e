"""The table of mutants, and how one is switched on for a while."""

from collections.abc import Generator
from contextlib import contextmanager

from ares.sim.mutants import (
    agents,
    committing,
    ending,
    federating,
    granting,
    judging,
    logging,
    looking,
    planning,
    promises,
    releasing,
    requests,
    saving,
    sharing,
    steering,
)
from ares.sim.mutants.mutant import Mutant

MUTANTS: dict[str, Mutant] = {
    **requests.MUTANTS,
    **granting.MUTANTS,
    **committing.MUTANTS,
    **ending.MUTANTS,
    **judging.MUTANTS,
    **agents.MUTANTS,
    **looking.MUTANTS,
    **logging.MUTANTS,
    **sharing.MUTANTS,
    **planning.MUTANTS,
    **promises.MUTANTS,
    **steering.MUTANTS,
    **releasing.MUTANTS,
    **saving.MUTANTS,
    **federating.MUTANTS,
}


@contextmanager
def switched_on(name: str) -> Generator[None, None, None]:
    """No name: the product as it is."""
    if not name:
        yield
        return
    if name not in MUTANTS:
        raise ValueError(f"there is no mutant {name!r}; there are: {', '.join(MUTANTS)}")
    with MUTANTS[name].patch():
        yield
