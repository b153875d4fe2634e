"""Schedules: when a job is to be made again."""
