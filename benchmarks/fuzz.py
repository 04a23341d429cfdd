"""Generated inputs to every loader, command and call of a run: which end in neither an answer nor a message.

    python benchmarks/fuzz.py --inputs 1000

Each input is given to a child process of 1 GiB of memory and a minute of computing. Counted are tracebacks (an error
that is none of hpsde's), code that ran although nobody trusted it, files written through a link, hangs, memory, and
children that were killed. All of them should be 0; inputs that led to others are printed with the seed that makes them
again.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one child compiles, the next need not.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="hpsde-fuzz-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import numpy as np

import hpsde
from hpsde.base.archive import write_arrays
from hpsde.cli import main as command
from hpsde.problems import read_problem
from hpsde.runs.config import read_config
from hpsde.runs.making import make_learner
from hpsde.runs.state import _digest, load_state

MEMORY, ADDRESSES = 2**30, 16 * 2**30
"""Bytes that a child may use, and lay out: compilers and threads lay out far more than they use."""
SECONDS, PATIENCE = 60, 600.0
"""Of computing, and by the clock: the machine may be busy with something else."""
INNOCENT, MARK = "innocent.txt", "ran"
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    10**5,
    10**10,
    10**15,
    2**63,
    10**30,
    0.5,
    -0.0,
    1e36,
    1e99,
    1e308,
    float("inf"),
    float("nan"),
)
TEXTS = (
    "",
    "x",
    "Ω",
    "\0",
    "=1+1",
    "uniform(0, 1)",
    "uniform(-1, 1)",
    "gaussian(0, 1)",
    "hostile:task",
    "toy-double",
    "../x",
)
Fuzz = Callable[[random.Random, Path], None]


def anything(chance: random.Random, depth: int = 2) -> Any:
    """A value of JSON."""
    kind = chance.randrange(6 if depth else 4)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 4:
        return chance.choice((*TEXTS, None, True, False))
    parts = [anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    return parts if kind == 4 else {chance.choice(TEXTS): part for part in parts}


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
        return np.full_like(array, chance.choice(NUMBERS[10:])) if array.dtype == float else array[..., None]
    if kind == 2:
        shape = [chance.choice((0, 1, size, 10**8)) for size in array.shape]
        return np.zeros([*shape, 0] if np.prod(shape, dtype=float) > 10**6 else shape)
    if kind == 3:
        return array.astype(chance.choice((float, np.int64, bool))) if array.dtype.kind in "fib" else array
    return np.concatenate([array, array]) if array.ndim else np.zeros((2, 2))


def with_other_arrays(chance: random.Random, path: Path, digest: bool) -> None:
    """The archive with some arrays changed, and a digest that is right where it has one."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    for name in chance.sample(sorted(arrays), min(len(arrays), chance.randrange(1, 4))):
        arrays[name] = other_array(chance, arrays[name])
    if digest:
        header["digest"] = _digest(arrays)
    write_arrays(path, {"header": np.array(json.dumps(header)), **arrays})


# One function for every way in


def policy_file(chance: random.Random, folder: Path) -> None:
    """A damaged policy file, loaded and used."""
    path = folder / "policy.npz"
    if chance.random() < 0.5:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        with_other_arrays(chance, path, digest=False)
    hpsde.load_policy(path).act([0.5])


def learner_state(chance: random.Random, folder: Path) -> None:
    """A damaged state, loaded; what does not fit may also show when the run is asked."""
    path = folder / "learner.npz"
    if chance.random() < 0.3:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        with_other_arrays(chance, path, digest=True)
    config = read_config(folder / "config.json")
    load_state(make_learner(config, None), path, config.run)
    with hpsde.Run.open(folder) as run:
        run.ask([[0.5]])


def configuration(chance: random.Random, folder: Path) -> None:
    """A configuration with other values; the run is looked at and asked."""
    path = folder / "config.json"
    if chance.random() < 0.2:
        path.write_bytes(damaged(chance, path.read_bytes()))
    else:
        data = json.loads(path.read_text())
        part = chance.choice((data, data["problem"], data["settings"]))
        part[chance.choice((*part, "function", "folder"))] = anything(chance)
        if chance.random() < 0.3:
            named = {"function": "hostile:task", "folder": str(folder), "settings": {}}
            data["problem"] = named if chance.random() < 0.5 else data["problem"] | named
        path.write_text(json.dumps(data))
    with hpsde.Run.open(folder) as run:
        run.status()
        run.ask([[0.5]])


def database(chance: random.Random, folder: Path) -> None:
    """A damaged database; the run is read, told and asked."""
    path = folder / "rollouts.sqlite"
    path.write_bytes(damaged(chance, path.read_bytes()))
    with hpsde.Run.open(folder) as run:
        run.rollouts()
        run.status()
        with suppress(hpsde.AskTellError):
            run.tell(1, 0.5)
        run.ask([[0.5]])


def problem_file(chance: random.Random, folder: Path) -> None:
    """A TOML file with other values."""
    path = folder / "problem.toml"
    names = ("task", "function", "folder", "initial", "contexts", "bounds", "rollouts", "parameter_size", "batched")
    lines = [f"{chance.choice(names)} = {json.dumps(anything(chance, 1))}" for _ in range(chance.randrange(1, 4))]
    content = "\n".join(lines).encode()
    path.write_bytes(damaged(chance, content) if chance.random() < 0.3 else content)
    read_problem(path)


def calls(chance: random.Random, folder: Path) -> None:
    """ask and tell with anything."""
    with hpsde.Run.open(folder) as run:
        for _ in range(3):
            with suppress(hpsde.HpsdeError):
                run.ask(anything(chance), count=anything(chance, 0))
            number, value, parameters = (anything(chance, 1) for _ in range(3))
            run.tell(number, value, failed=anything(chance, 0), parameters=parameters)


def commands(chance: random.Random, folder: Path) -> None:
    """A command with any words, in a folder that may have links in it."""
    if chance.random() < 0.3:
        name = chance.choice(("lock", "log.txt", "policy.npz", "learner.npz", "config.json", "rollouts.sqlite"))
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(folder.parent / INNOCENT) if chance.random() < 0.5 else os.mkfifo(folder / name)
    name = chance.choice(("ask", "tell", "status", "act", "export", "plot"))
    words = ("--context", "--count", "--return", "--failed", "--parameters", "--to", "--out", "1", "0.5", "nan", *TEXTS)
    chosen = [word for word in chance.choices(words, k=chance.randrange(5)) if "\0" not in word]
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = command([name, str(folder), *chosen])
    if code not in (0, 1, 2) or (code and not output.getvalue()):
        raise RuntimeError(f"{name} {chosen} ended with {code} and said {output.getvalue()!r}")


WAYS: dict[str, Fuzz] = {
    each.__name__: each for each in (policy_file, learner_state, configuration, database, problem_file, calls, commands)
}


def make_run(folder: Path) -> None:
    """A small run that has learned once, with four rollouts open."""
    sizes = {"rollouts": 192, "initial_rollouts": 128, "batch": 32, "max_options": 4}
    generator = np.random.default_rng(0)
    with hpsde.Run.create(folder, initial="uniform(-1, 1)", contexts="uniform(0, 2)", seed=7, **sizes) as run:
        for asked in run.ask(generator.uniform(0.0, 2.0, (128, 1))):
            run.tell(asked.id, float(np.exp(-4.0 * abs(abs(asked.parameters[0]) - 0.6))))
        run.ask(generator.uniform(0.0, 2.0, (4, 1)))
    (folder / "hostile.py").write_text(f"open({str(folder.parent / MARK)!r}, 'w').close()\ntask = None\n")


def outcome(way: str, seed: int, made: Path) -> tuple[str, str]:
    """What came of one input in a child: "answer", "message", "traceback", "code run", "link followed", "hang",
    "memory" or "killed"; and what it said.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder, report = Path(scratch) / "run", Path(scratch) / "report"
        shutil.copytree(made, folder)
        (folder.parent / INNOCENT).write_text("mine")
        child = os.fork()
        if child == 0:
            _run_in_child(way, seed, folder, report)
        kind, text = _wait(child, report)
        if (made.parent / MARK).exists():
            (made.parent / MARK).unlink()
            return "code run", text
        if (folder.parent / INNOCENT).read_text() != "mine":
            return "link followed", text
        return kind, text


def _run_in_child(way: str, seed: int, folder: Path, report: Path) -> None:
    """Never returns."""
    kind, text = "answer", ""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        os.chdir(folder)
        WAYS[way](random.Random(seed), folder)
    except (hpsde.HpsdeError, FileNotFoundError) as error:
        kind, text = ("message" if len(str(error)) > 10 else "traceback"), str(error)
    except BaseException:
        kind, text = "traceback", traceback.format_exc()
    finally:
        report.write_text(json.dumps([kind, text]))
        os._exit(0)


def _bytes_used(child: int) -> int:
    """Of memory, less what it shares with the process that forked it; 0 where it has ended."""
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{child}/statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * resource.getpagesize()


def _wait(child: int, report: Path) -> tuple[str, str]:
    end, (ended, status) = time.monotonic() + PATIENCE, os.waitpid(child, os.WNOHANG)
    while not ended:
        late, large = time.monotonic() > end, _bytes_used(child) > MEMORY
        if late or large:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return ("hang", f"no answer after {PATIENCE:g} s") if late else ("memory", f"more than {MEMORY} bytes")
        time.sleep(0.01)
        ended, status = os.waitpid(child, os.WNOHANG)
    if report.exists():
        kind, text = json.loads(report.read_text())
        return kind, text
    number = os.WTERMSIG(status)
    return "hang" if number in (signal.SIGXCPU, signal.SIGKILL) else "killed", f"ended by signal {number}"


def run(inputs: int, seed: int = 0, ways: tuple[str, ...] = tuple(WAYS)) -> tuple[Counter[str], list[str]]:
    """Counts of what came of so many inputs, and a line for each that ended in no answer and no message."""
    counts: Counter[str] = Counter()
    bad: list[str] = []
    # Children are forked by a process that has loaded everything and computed nothing: JAX has no threads yet.
    warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "made"
        maker = os.fork()
        if maker == 0:
            try:
                make_run(made)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(maker, 0)[1]:
            raise RuntimeError("the run that inputs are made from could not be made")
        for number in range(inputs):
            way = ways[number % len(ways)]
            kind, text = outcome(way, seed + number, made)
            counts[kind] += 1
            if kind not in ("answer", "message"):
                bad.append(f"{way}, seed {seed + number}: {kind}: {text.strip()[-400:]}")
    return counts, bad


def main() -> int:
    """Run them, print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others follow")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="which ways in")
    arguments = parser.parse_args()
    counts, bad = run(arguments.inputs, arguments.seed, tuple(arguments.ways))
    print(*bad, sep="\n")
    print(json.dumps({"inputs": arguments.inputs, **counts}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
