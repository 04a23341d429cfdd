"""`hpsde settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Command:
    """List the settings of a method, for `hpsde run TASK --set NAME=VALUE`: name, default, values and meaning.

    A strategy (update, gate) has settings of its own, after its name and a dot. In a TOML file they
    are written as `update.epsilon = 1` under [settings], or in a table [settings.update], in which
    the strategy itself is called `kind`.

    examples:
      hpsde settings
      hpsde settings --all
      hpsde settings --method hireps
    """

    all: bool = False
    """All settings, not only those that users need most often."""
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "hpsde-reps-gp"
    """Name of the method; `hpsde methods` lists them. The defaults are its own."""

    def __call__(self) -> None:
        """Print the table."""
        from hpsde.base.groups import described
        from hpsde.commands._table import table
        from hpsde.methods import method_settings

        lines = [each for each in described(method_settings(self.method)) if self.all or each.common]
        rows = [[each.name, str(each.value), each.values, each.meaning] for each in lines]
        print(table(["setting", "default", "values", "meaning"], rows))
