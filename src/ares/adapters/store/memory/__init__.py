"""A store in this process's memory, deterministic, with faults on demand."""

from ares.adapters.store.memory.store import Faults, MemoryStore, StoreFault

__all__ = ["Faults", "MemoryStore", "StoreFault"]
