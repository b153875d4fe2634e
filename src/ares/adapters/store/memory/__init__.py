"""A store in this process's memory, deterministic, with faults on demand."""

from ares.adapters.store.memory.faults import Faults, StoreFault
from ares.adapters.store.memory.store import MemoryStore

__all__ = ["Faults", "MemoryStore", "StoreFault"]
