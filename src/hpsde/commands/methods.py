"""`hpsde methods`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """List the methods: name, and what it does."""

    def __call__(self) -> None:
        """Print the table."""
        from hpsde.commands._table import table
        from hpsde.methods import METHODS

        print(table(["method", "what it does"], [[name, method.description] for name, method in METHODS.items()]))
