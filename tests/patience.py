"""How long a test waits for what should come."""

LONG = 1800.0
"""Seconds after which a test gives up what never comes, however busy the machine is."""
