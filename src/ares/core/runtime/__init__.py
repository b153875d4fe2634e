"""Runtimes: what starts the processes of a rank, as pure planners. A plugin may add one."""
