"""`hpsde tasks`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """List the tasks: name, how many numbers a context and a parameter have, and what the task is."""

    def __call__(self) -> None:
        """Print the table."""
        from hpsde.commands._table import table
        from hpsde.tasks import make_task, task_names

        tasks = [make_task(name) for name in task_names()]
        rows = [
            [task.name, str(task.context_size), str(task.parameter_size), task.description] for task in tasks
        ]
        print(table(["task", "contexts", "parameters", "what it is"], rows))
