"""Runs so small that a test can have many: the sizes of `small`, so that both compile the same functions."""

import functools
import sqlite3
from contextlib import closing

import numpy as np

import hpsde
import small
from hpsde.runs.checksums import checksums
from hpsde.runs.rows import read_unchecked
from hpsde.runs.schema import TABLES
from hpsde.runs.totals import count_totals, write_totals
from hpsde.tasks.task import task_from_function

SIZES = {"rollouts": 192, "initial_rollouts": 128, "batch": 32, "max_options": 4}
WORDS = {"initial": "uniform(-1, 1)", "contexts": "uniform(0, 2)"}
SHORT = ["--rollouts", "192", "--initial-rollouts", "128", "--batch", "32", "--max-options", "4"]
FUNCTION = """
import numpy as np


def ridges(context, parameters, seed):
    distance = abs(abs(parameters[0] - 0.1 * context[0]) - 0.6)
    return np.exp(-4.0 * distance) + np.random.default_rng(seed).normal(0.0, 0.01)
"""


def noisy_ridges(contexts, parameters, seeds):
    """`small.two_ridges` with noise that each rollout's seed decides."""
    noise = [np.random.default_rng(seed).normal(0.0, 0.01) for seed in seeds.tolist()]
    return small.two_ridges(contexts, parameters) + np.array(noise)


def make_task(function=noisy_ridges):
    return task_from_function(
        function, contexts=hpsde.Uniform(0.0, 2.0), initial=hpsde.Uniform(-1.0, 1.0), batched=True, name="ridges"
    )


def create(folder, **changes):
    """A run whose rollouts are told, or learned with `make_task`."""
    return hpsde.Run.create(folder, **(WORDS | SIZES | {"seed": 7, "chunk": 16} | changes))


def tell(run, asked):
    """Tell rollouts what `noisy_ridges` says of them."""
    seeds = np.array([each.seed for each in asked])
    values = noisy_ridges(
        np.array([each.context for each in asked]), np.array([each.parameters for each in asked]), seeds
    )
    run.tell([each.id for each in asked], values)


def learn_once(folder):
    """A run told by hand that has learned once, with 32 rollouts open; its folder."""
    with create(folder) as run:
        tell(run, run.ask(small.draw_contexts(0, 128, 1)))
        run.ask(small.draw_contexts(1, 32, 1))
    return folder


@functools.cache
def fresh_policy(folder):
    """The policy file's bytes and the rollouts of a run that is never interrupted, learned in `folder`."""
    with create(folder) as run:
        run.learn(make_task(), progress=False)
        return (folder / "policy.npz").read_bytes(), run.rollouts()


def look(folder, query, *values):
    """What another program finds in the database."""
    with closing(sqlite3.connect(folder / "rollouts.sqlite")) as connection:
        return connection.execute(query, values).fetchall()


def change(folder, *statements):
    """What another program does to the database."""
    with closing(sqlite3.connect(folder / "rollouts.sqlite", isolation_level=None)) as connection:
        for statement in statements:
            connection.executescript(statement)


def sign(folder):
    """What one does who changes the database and knows of its checksums and totals."""
    with closing(sqlite3.connect(folder / "rollouts.sqlite", isolation_level=None)) as connection:
        for table, columns in TABLES.items():
            found = read_unchecked(connection, table)
            sums = zip(checksums(table, found), found[next(iter(columns))], strict=True)
            connection.executemany(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", list(sums))
        write_totals(connection, count_totals(connection))


def sound(folder):
    return look(folder, "PRAGMA integrity_check") == [("ok",)]
