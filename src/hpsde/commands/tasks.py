"""`hpsde tasks`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """List the tasks: name, how many numbers a context and a parameter have, and what the task is."""

    def __call__(self) -> None:
        """Print the table."""
        from hpsde.commands._table import table
        from hpsde.tasks import make_task, task_extras, task_names
        from hpsde.tasks.gauntlet import CELLS

        rows = []
        for task in map(make_task, task_names()):
            description = task_extras(task).description
            rows.append([task.name, str(task.context_size), str(task.parameter_size), description])
        print(table(["task", "contexts", "parameters", "what it is"], rows))
        families = ", ".join(dict.fromkeys(cell.family for cell in CELLS.values()))
        print(f"\nand the gauntlet, {len(CELLS)} kinds of random tasks such as ridges-4@17 ({families})")
