"""The store of several servers: a thin etcd client that never repeats a transaction by itself."""

from ares.adapters.store.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
