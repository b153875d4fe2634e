"""Benchmarks: each result is a ratio to something measured in the same run. See docs/performance.md."""
