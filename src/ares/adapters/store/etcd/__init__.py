"""The store of several servers: a thin etcd client that never repeats a transaction by itself."""

import os

# Ares only forks to exec. grpc's fork handlers crash such a child now and then while calls are under way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from ares.adapters.store.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
