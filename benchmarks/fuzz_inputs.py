"""The inputs of `fuzz.py`: values, damaged files, and one function for every way into the library.

Each way draws its input from a generator and hands it in, in a folder of its own that holds two runs and nothing else:
`run` has learned once, `young` has told rollouts and no learning step, so that asking it costs no more than a draw.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

import hpsde
from hpsde.base.archive import write_arrays
from hpsde.base.words import parse_distribution
from hpsde.cli import COMMANDS
from hpsde.cli import main as command
from hpsde.problems import read_problem
from hpsde.runs.checksums import checksum
from hpsde.runs.config import read_config
from hpsde.runs.making import learner_of
from hpsde.runs.schema import TABLES, quoted
from hpsde.runs.state import _digest, load_state
from hpsde.runs.tables import read_table, read_told

Fuzz = Callable[[random.Random, Path], None]
INNOCENT, MARK = "innocent.txt", "ran"
OLD_DATABASE = Path(__file__).parent.parent / "tests" / "database_version_3.sql"
WHOLE = (0, 1, -1, 2, 7, 10**5, 10**10, 10**15, 2**63, 10**30)
REAL = (0.5, -0.0, 1e36, 1e99, 1e308, float("inf"), float("nan"))
NUMBERS: tuple[float, ...] = (*WHOLE, *REAL)
TEXTS = (
    *("", "x", "Ω", "\0", "=1+1", "uniform(0, 1)", "uniform(-1, 1)", "gaussian(0, 1)", "hostile:task", "toy-double"),
    *("../x", "none", "[0, 1]", "[[0], [1]]", "nan", "1e400", "\ud800"),
)
LEARNED = 0.03
"""How often an input goes to the run that has learned, where either will do: its learner may have to learn anew."""
FILES = ("lock", "log.txt", "policy.npz", "learner.npz", "config.json", "rollouts.sqlite")


def make_runs(folder: Path) -> None:
    """The runs that inputs are made from: one that has learned once with four rollouts open, and a young one."""
    sizes = {"rollouts": 192, "initial_rollouts": 128, "batch": 32, "max_options": 4, "seed": 7}
    for name, told in (("run", 128), ("young", 24)):
        generator = np.random.default_rng(0)
        with hpsde.Run.create(folder / name, initial="uniform(-1, 1)", contexts="uniform(0, 2)", **sizes) as run:
            for asked in run.ask(generator.uniform(0.0, 2.0, (told, 1))):
                run.tell(asked.id, float(np.exp(-4.0 * abs(abs(asked.parameters[0]) - 0.6))))
            run.ask(generator.uniform(0.0, 2.0, (4, 1)))
        (folder / name / "hostile.py").write_text(f"open({str(folder / MARK)!r}, 'w').close()\ntask = None\n")
    with closing(sqlite3.connect(folder / "old.sqlite", isolation_level=None)) as connection:
        connection.executescript(OLD_DATABASE.read_text())


# Values


def anything(chance: random.Random, depth: int = 2) -> Any:
    """A value of JSON."""
    kind = chance.randrange(6 if depth else 4)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 4:
        return chance.choice((*TEXTS, None, True, False))
    parts = [anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    return parts if kind == 4 else {chance.choice(TEXTS): part for part in parts}


def an_argument(chance: random.Random) -> Any:
    """A value as a caller in Python may give one: also arrays, bytes, objects."""
    kind = chance.randrange(8)
    if kind < 4:
        return anything(chance)
    shape = [chance.choice((0, 1, 1, 2, 3)) for _ in range(chance.randrange(4))]
    array = np.full(shape, chance.choice(REAL))
    return (array, array.astype(object), array.astype(str), b"bytes", object(), hpsde.Uniform(0.0, 1.0))[
        chance.randrange(6)
    ]


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Some bytes changed, or the end cut off."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.3 else changed)


def other_array(chance: random.Random, array: np.ndarray) -> np.ndarray:
    """An array of another shape, type or of other numbers."""
    kind = chance.randrange(5)
    if kind == 0:
        return array.reshape(-1)[: chance.randrange(array.size + 1)]
    if kind == 1:
        return np.full_like(array, chance.choice(REAL)) if array.dtype == float else array[..., None]
    if kind == 2:
        shape = [chance.choice((0, 1, size)) for size in array.shape]
        return np.zeros((10**8, *shape, 0)[chance.randrange(2) :] if chance.random() < 0.3 else shape)
    if kind == 3:
        return array.astype(chance.choice((float, np.int64, bool))) if array.dtype.kind in "fib" else array
    return np.concatenate([array, array]) if array.ndim else np.zeros((2, 2))


def damage_archive(chance: random.Random, path: Path, digest: bool) -> None:
    """The archive with bytes, arrays or its header changed, and a digest that is right where it has one."""
    if chance.random() < 0.3:
        path.write_bytes(damaged(chance, path.read_bytes()))
        return
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    if chance.random() < 0.3:
        header[chance.choice((*header, "x"))] = anything(chance)
    for name in chance.sample(sorted(arrays), min(len(arrays), chance.randrange(3))):
        arrays[name] = other_array(chance, arrays[name])
    if digest and isinstance(header, dict):
        header["digest"] = _digest(arrays)
    text = json.dumps(header).encode("utf-8", "replace").decode()
    write_arrays(path, {"header": np.array(text), **arrays})


def either(chance: random.Random, folder: Path) -> Path:
    """One of the two runs."""
    return folder / ("run" if chance.random() < LEARNED else "young")


# One function for every way in


def policy_file(chance: random.Random, folder: Path) -> None:
    """A damaged policy file, loaded and used."""
    path = folder / "run" / "policy.npz"
    damage_archive(chance, path, digest=False)
    hpsde.load_policy(path).act([0.5])


def policy_calls(chance: random.Random, folder: Path) -> None:
    """A policy, asked for anything."""
    policy = hpsde.load_policy(folder / "run" / "policy.npz")
    chance.choice(
        (
            lambda: policy.act(an_argument(chance)),
            lambda: policy.sample(chance.choice((0, an_argument(chance))), an_argument(chance)),
            lambda: policy.log_prob(an_argument(chance), an_argument(chance)),
            lambda: policy.expected_returns(an_argument(chance)),
            lambda: policy.expected_deviations(an_argument(chance)),
            lambda: policy.options[0].mean(an_argument(chance)),
            lambda: policy.save(folder / chance.choice(("new.npz", "run", "no/such/folder.npz"))),
        )
    )()


def learner_state(chance: random.Random, folder: Path) -> None:
    """A damaged state, loaded; what does not fit may also show when the run is asked."""
    path = folder / "run" / "learner.npz"
    damage_archive(chance, path, digest=True)
    config = read_config(folder / "run" / "config.json")
    load_state(learner_of(config, None), path, config.run)
    with hpsde.Run.open(folder / "run") as run:
        run.ask([[0.5]])


def configuration(chance: random.Random, folder: Path) -> None:
    """A configuration with other values; the run is looked at and asked."""
    place = either(chance, folder)
    path = place / "config.json"
    if chance.random() < 0.2:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        data = json.loads(path.read_text())
        part = chance.choice((data, data["problem"], data["settings"]))
        part[chance.choice((*part, "function", "folder", "task"))] = anything(chance)
        if chance.random() < 0.3 and isinstance(data["problem"], dict):
            named = {"function": "hostile:task", "folder": str(place), "settings": {}}
            data["problem"] = named if chance.random() < 0.5 else data["problem"] | named
        path.write_text(json.dumps(data))
    with hpsde.Run.open(place) as run:
        run.status()
        run.ask([[0.5]])


def database(chance: random.Random, folder: Path) -> None:
    """A damaged database, or one of which somebody has written a value, with the right checksum or without."""
    place = either(chance, folder)
    path = place / "rollouts.sqlite"
    if chance.random() < 0.5:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        _write_value(chance, path)
    with hpsde.Run.open(place) as run:
        _use(run)


def old_database(chance: random.Random, folder: Path) -> None:
    """The damaged database of an earlier version, which is brought to this one."""
    path = folder / "young" / "rollouts.sqlite"
    path.write_bytes((folder / "old.sqlite").read_bytes())
    data = json.loads((folder / "young" / "config.json").read_text())
    data |= {"context_size": 2, "parameter_size": 3}
    data["problem"] |= {"context_size": 2, "contexts": "uniform([0, 0], [2, 2])"}
    data["problem"] |= {"parameter_size": 3, "initial": "uniform([-1, -1, -1], [1, 1, 1])"}
    (folder / "young" / "config.json").write_text(json.dumps(data))
    if chance.random() < 0.5:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            table = chance.choice(("rollouts", "steps", "events"))
            column = chance.choice([row[1] for row in connection.execute(f"PRAGMA table_info({table})")])
            with suppress(sqlite3.Error, OverflowError, UnicodeError):
                connection.execute(f'UPDATE {table} SET "{column}" = ?', [_cell(chance)])
    with hpsde.Run.open(folder / "young") as run:
        _use(run)


def _write_value(chance: random.Random, path: Path) -> None:
    """Another value in a row of the database."""
    table = chance.choice(list(TABLES))
    columns = list(TABLES[table])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute(f"SELECT {quoted(columns)} FROM {table}").fetchall()
        if not rows:
            return
        row = dict(zip(columns, chance.choice(rows), strict=True))
        key = row[columns[0]]
        row[chance.choice(columns)] = _cell(chance)
        with suppress(sqlite3.Error, OverflowError, UnicodeError, TypeError, ValueError, AttributeError):
            right = checksum(table, row) if chance.random() < 0.7 else 1
            names = ", ".join(f'"{name}" = ?' for name in (*columns, "checksum"))
            connection.execute(f'UPDATE {table} SET {names} WHERE "{columns[0]}" = ?', [*row.values(), right, key])


def _cell(chance: random.Random) -> Any:
    """A value of SQLite."""
    kind = chance.randrange(4)
    if kind == 0:
        return json.dumps(anything(chance))
    if kind == 1:
        return np.full(chance.randrange(4), chance.choice(REAL)).tobytes()
    return chance.choice((*NUMBERS, *TEXTS, None)) if kind == 2 else chance.randrange(-2, 200)


def _use(run: hpsde.Run) -> None:
    """Read, tell and ask."""
    run.rollouts()
    run.status()
    with suppress(hpsde.AskTellError):
        run.tell(1, 0.5)
    run.ask(np.full((1, run.config.context_size), 0.5))


def problem_file(chance: random.Random, folder: Path) -> None:
    """A TOML file with other values, read, and a run made from it."""
    values: dict[str, Any] = {"initial": "uniform(0, 1)", "contexts": "uniform(0, 1)"}
    for _ in range(chance.randrange(3)):
        values[chance.choice(KEYS)] = anything(chance, 1)
    if chance.random() < 0.2:
        del values[chance.choice(list(values))]
    content = "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items()).encode()
    path = folder / "problem.toml"
    path.write_bytes(damaged(chance, content) if chance.random() < 0.2 else content)
    problem = read_problem(path)
    if not problem.runnable:
        hpsde.Run.create(folder / "new", problem).close()


def words(chance: random.Random, folder: Path) -> None:
    """A distribution in words."""
    text = chance.choice((*TEXTS, "samples([[1], [2]])", "uniform([0, 1], [1, 2])"))
    content = text.encode("utf-8", "replace")
    parse_distribution((damaged(chance, content) if chance.random() < 0.7 else content).decode("latin-1"), "initial")


def table(chance: random.Random, folder: Path) -> None:
    """A table of rollouts in CSV or Parquet, imported."""
    header = ["context_1", "parameter_1", "return", "status"]
    header += [text.replace(",", "") for text in chance.choices(TEXTS, k=chance.randrange(2))]
    cells = ("0.5", "1e400", "1e101", "nan", "", "-inf", "failed", *(text.replace(",", ";") for text in TEXTS))
    rows = [["0.5", "0.5", "0.5", "done", *[""] * (len(header) - 4)] for _ in range(chance.randrange(1, 4))]
    for _ in range(chance.randrange(3)):
        chance.choice([header, *rows])[chance.randrange(len(header))] = chance.choice(cells)
    path = folder / chance.choice(("data.csv", "data.csv", "data.parquet"))
    if path.suffix == ".parquet":
        with suppress(pyarrow.ArrowException, UnicodeError):
            columns = [pyarrow.array([row[place] for row in rows]) for place in range(len(header))]
            parquet.write_table(pyarrow.Table.from_arrays(columns, header), path)
    if not path.exists():
        path.write_text("\n".join(",".join(row) for row in [header, *rows]), encoding="utf-8", errors="replace")
    if chance.random() < 0.3:
        path.write_bytes(damaged(chance, path.read_bytes()))
    with hpsde.Run.open(folder / "young") as run:
        found = read_table(path, 1, 1)
        run.add(found.contexts, found.parameters, found.returns)


def told(chance: random.Random, folder: Path) -> None:
    """Many rollouts told at once, in JSON or CSV."""
    entries: list[dict[str, Any]] = [{"id": number, "return": 0.5} for number in range(25, 25 + chance.randrange(1, 4))]
    for _ in range(chance.randrange(3)):
        chance.choice(entries)[chance.choice(("id", "return", "failed", "parameters"))] = anything(chance, 1)
    text = json.dumps(entries if chance.random() < 0.9 else anything(chance))
    if chance.random() < 0.5:
        names = list(dict.fromkeys(name for entry in entries for name in entry))
        cells = [[str(entry.get(name, "")) for name in names] for entry in entries]
        text = "\n".join(",".join(row) for row in [names, *cells])
    if chance.random() < 0.2:
        text = damaged(chance, text.encode("utf-8", "replace")).decode("latin-1")
    with hpsde.Run.open(folder / "young") as run:
        run.tell_each(read_told(text))


def calls(chance: random.Random, folder: Path) -> None:
    """The calls of a run with anything."""
    with hpsde.Run.open(folder / "young") as run:
        for _ in range(3):
            with suppress(hpsde.HpsdeError):
                _call(chance, run)
        _call(chance, run)


def _call(chance: random.Random, run: hpsde.Run) -> None:
    number = chance.choice((1, 25, an_argument(chance)))
    value, failed, parameters = an_argument(chance), anything(chance, 0), an_argument(chance)
    chance.choice(
        (
            lambda: run.ask(an_argument(chance), count=chance.choice((None, anything(chance, 0)))),
            lambda: run.tell(number, value, failed=chance.choice((None, failed)), parameters=parameters),
            lambda: run.tell(number, value),
            lambda: run.add(an_argument(chance), parameters, value),
            lambda: run.correct(number, value, failed=chance.choice((None, failed)), reason=anything(chance, 0)),
            lambda: run.extend(anything(chance, 0)),
            lambda: run.set(**{chance.choice(SETTINGS): an_argument(chance)}),
        )
    )()


def learners(chance: random.Random, folder: Path) -> None:
    """Learners in memory, and `hpsde.learn`, with anything. A function that is called ends it: the call was taken."""

    def function(*_: Any) -> float:
        raise hpsde.HpsdeError("the function was called")

    initial = hpsde.Uniform(-1.0, 1.0) if chance.random() < 0.8 else an_argument(chance)
    settings = {chance.choice(SETTINGS): an_argument(chance) for _ in range(chance.randrange(3))}
    if chance.random() < 0.3:
        contexts = chance.choice((None, hpsde.Uniform(0.0, 1.0), an_argument(chance)))
        hpsde.learn(function, contexts=contexts, initial=initial, **settings)
        return
    kind = chance.choice((hpsde.HPSDE, hpsde.HiREPS, hpsde.CREPS))
    sizes = [1 if chance.random() < 0.8 else anything(chance, 0) for _ in range(2)]
    learner = kind(*sizes, initial=initial, **settings)
    given = [[[0.5]], [[0.5]], [0.5]]
    for _ in range(chance.randrange(3)):
        given[chance.randrange(3)] = an_argument(chance)
    with suppress(hpsde.HpsdeError):
        learner.ask(given[0])
    with suppress(hpsde.HpsdeError):
        learner.add(*given)
    learner.tell(*given)


def distributions(chance: random.Random, folder: Path) -> None:
    """Distributions of anything."""
    kind = chance.choice((hpsde.Uniform, hpsde.Gaussian, hpsde.Samples))
    made = kind(*(an_argument(chance) for _ in range(1 if kind is hpsde.Samples else 2)))
    made.log_prob(an_argument(chance))


def commands(chance: random.Random, folder: Path) -> None:
    """A command with any words and any standard input, in a folder that may have links in it."""
    place = either(chance, folder)
    if chance.random() < 0.3:
        name = chance.choice(FILES)
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(folder / INNOCENT) if chance.random() < 0.5 else os.mkfifo(place / name)
    name = chance.choice([*LINES]) if chance.random() < 0.1 else chance.choice(FAST)
    arguments = [str(place) if word == "RUN" else word for word in LINES[name]]
    for _ in range(chance.randrange(3) if name != "reproduce" else 0):  # others would run experiments
        at = chance.randrange(len(arguments) + 1)
        arguments[at : at + chance.randrange(2)] = chance.choices(WORDS, k=chance.randrange(2))
    (folder / "data.csv").write_text("context_1,parameter_1,return\n0.5,0.5,0.5\n")
    output, sys.stdin = StringIO(), StringIO(chance.choice(('[{"id": 25, "return": 0.5}]', "id,return\n25,1", "", "[")))
    with redirect_stdout(output), redirect_stderr(output):
        code = command([name, *arguments])
    if code not in (0, 1, 2) or (code and not output.getvalue()):
        raise RuntimeError(f"{name} {arguments} ended with {code} and said {output.getvalue()!r}")
    if code:
        raise hpsde.HpsdeError(output.getvalue())


LINES = {name: ["RUN"] for name in COMMANDS if name not in ("serve", "view")} | {
    "ask": ["RUN", "--context", "0.5"],
    "tell": ["RUN", "25", "--return", "0.5"],
    "act": ["RUN", "--context", "0.5"],
    "export": ["RUN", "--to", "csv"],
    "backup": ["RUN", "copy"],
    "correct": ["RUN", "1", "--return", "0.5", "--reason", "x"],
    "import": ["RUN", "data.csv"],
    "extend": ["RUN", "--rollouts", "300"],
    "set": ["RUN", "max_options=6"],
    "create": ["new", "--initial", "uniform(0, 1)", "--context-size", "1", "--bounds", "[0, 1]"],
    "run": ["x:y", "--initial", "uniform(0, 1)"],
    "reproduce": ["--list"],
    **{name: [] for name in ("tasks", "methods", "settings")},
}
"""A right line for each command that ends by itself, of which words are then changed."""
FAST = [name for name in LINES if name not in ("plot", "run", "reproduce")]
"""Commands of milliseconds; drawing and starting a run take seconds, and are rarer."""
WORDS = [
    *("--context", "--count", "--return", "--failed", "--parameters", "--to", "--out", "--drop", "--reason", "--help"),
    *("--rollouts", "--initial", "--context-size", "--problem", "--bounds", "--seed", "--set", "--method", "--batch"),
    *("1", "25", "0.5", "nan", "300", "csv", "parquet", "new", "max_options=6", "epsilon=x"),
    *("data.csv", "config.json", "rollouts.sqlite"),
    *(text for text in TEXTS if text not in ("\0", "\ud800", "toy-double", "hostile:task")),
]
KEYS = ("task", "function", "folder", "initial", "contexts", "bounds", "rollouts", "parameter_size", "batched", "x")
SETTINGS = (*(field.name for field in fields(hpsde.Settings)), "bounds", "initial_rollouts", "expected_rollouts", "x")
WAYS: dict[str, Fuzz] = {
    each.__name__: each
    for each in (
        *(policy_file, policy_calls, learner_state, configuration, database, old_database, problem_file, words),
        *(table, told, calls, learners, distributions, commands),
    )
}
