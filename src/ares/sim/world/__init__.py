"""Whole worlds in one thread: the real services on virtual time, with a faulty store, network, clocks and machines.

A seed decides everything. The same seed gives the same history, byte for byte.
"""
