"""The helper process that runs jobs. Python runs it as a folder, outside the package and without site packages,
so that it starts in milliseconds. The agent imports `wire` and `kernel` only."""
