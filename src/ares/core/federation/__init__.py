"""The protocol of a federation: pure functions over frozen values, for the global plane, clusters and the simulator.

The global plane decides who owns a job (`owners`), a cluster what it does with an offer (`possession`). Messages
(`messages`) are derived from these records, so any of them may be lost, repeated or late: what arrives is compared with
the record, never believed by itself. After a cut the two sides compare `buckets` and settle what differs by `healing`.
Quotas are lent by `escrow`. What needs no agreement is merged by `merge`. docs/concepts/federation.md tells the whole.
"""
