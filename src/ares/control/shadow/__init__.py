"""A profile that is tried on the jobs that come without being in force: held, judged, promoted, reverted."""
