"""Narrow protocols between the services and the world. No behaviour lives here."""
