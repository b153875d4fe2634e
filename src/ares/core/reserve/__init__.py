"""Advance reservations: where room is booked ahead, which jobs may use it, and when it is given up."""
