"""Certificates of machines."""
