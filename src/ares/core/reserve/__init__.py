"""Advance reservations: where room is booked ahead, who may use it, and when it is given up."""
