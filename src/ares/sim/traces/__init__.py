"""Replays traces of jobs on the real scheduling core: importers, engine, outcome and summary."""
