"""The state of record: memory, SQLite and etcd behind `ares.ports.store.Store`. Imports nothing heavy."""
