"""Importers of traces, one file for each format. They know nothing of the cluster or the engine."""

from ares.sim.traces.formats.detect import FORMATS, read

__all__ = ["FORMATS", "read"]
