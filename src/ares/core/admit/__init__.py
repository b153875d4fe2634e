"""Admission: what is accepted as a job, in which array tasks, and whether it was seen before."""
