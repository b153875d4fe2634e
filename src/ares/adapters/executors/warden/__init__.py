"""The helper process that holds jobs: run as a folder, outside the package and without site packages,
so that it starts in milliseconds. The agent imports `wire` and `kernel` only."""
