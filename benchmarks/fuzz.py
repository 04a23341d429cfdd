"""Generated inputs to every loader, command and call of a run: which end in neither an answer nor a message.

    python benchmarks/fuzz.py --inputs 1000
    python benchmarks/fuzz.py --inputs 100000 --results benchmarks/results/fuzz.json

Each input is given to a child process that may use 1 GiB of memory and a minute of computing, in folders of its own
(fuzz_inputs.py). Counted are tracebacks (an error that is none of hpsde's), code that ran although nobody trusted it,
files written through a link, hangs, memory, and children that were killed. All of them should be 0; inputs that led to
others are printed with the way in and the seed that make them again: `--ways NAME --seed SEED --inputs 1`.

A child takes many inputs, one after the other, so that what it has compiled serves the next.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one child compiles, the next need not.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="hpsde-fuzz-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import hpsde
from fuzz_inputs import INNOCENT, MARK, WAYS, make_runs

MEMORY, ADDRESSES = 2**30, 16 * 2**30
"""Bytes that a child may use, and lay out: compilers and threads lay out far more than they use."""
SECONDS, PATIENCE = 60.0, 600.0
"""For one input, of computing, and by the clock: the machine may be busy with something else."""
SHARE = 4000
"""So many inputs are given to one child."""
LOOK = 0.05
"""Seconds between two looks at the memory of a child."""
GOOD = ("answer", "message")
RAM_DISK = Path("/dev/shm")


class Input(NamedTuple):
    """A way in, and the seed of what is handed in."""

    way: str
    seed: int


class Outcome(NamedTuple):
    """What came of an input: "answer", "message", "traceback", "code run", "link followed", "hang", "memory" or
    "killed"; what it said; and the largest memory of its child so far, in bytes.
    """

    kind: str
    text: str
    memory: int = 0


def outcomes(inputs: list[Input], made: Path) -> Iterator[Outcome]:
    """What came of each input, in their order. One that ends its child is its last; another child takes the rest."""
    while inputs:
        count = 0
        for found in _of_one_child(inputs[:SHARE], made):
            yield found
            count += 1
        inputs = inputs[count:]


def _of_one_child(inputs: list[Input], made: Path) -> Iterator[Outcome]:
    """What came of these inputs up to the one that the child did not survive, if there is one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _work(inputs, made, write)
    os.close(write)
    largest, ended = 0, ""
    with open(read, encoding="utf-8") as lines:
        try:
            for _ in inputs:
                ended, largest = _wait(child, read, largest)
                line = "" if ended else lines.readline()
                if not line:
                    break
                yield Outcome(*json.loads(line), largest)
            else:
                return
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL if ended or sys.exc_info()[0] else 0)
            _, status = os.waitpid(child, 0)
    number = os.WTERMSIG(status)
    kind = ended or ("hang" if number == signal.SIGPROF else "killed")
    yield Outcome(kind, f"its process was ended by signal {number}", largest)


def _wait(child: int, descriptor: int, largest: int) -> tuple[str, int]:
    """Until the child says something or ends: "hang" or "memory" where it must be ended; its largest memory so far."""
    end = time.monotonic() + PATIENCE
    while True:
        said, *_ = select.select([descriptor], [], [], LOOK)
        largest = max(largest, _bytes_used(child))
        if largest > MEMORY:
            return "memory", largest
        if said:
            return "", largest
        if time.monotonic() > end:
            return "hang", largest


def _bytes_used(child: int) -> int:
    """Of memory, less what it shares with the process that forked it; 0 where it has ended."""
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{child}/statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * resource.getpagesize()


# In the child


def _work(inputs: list[Input], made: Path, descriptor: int) -> None:
    """Take the inputs and write a line [kind, text] for each. Never returns."""
    try:
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        with open(descriptor, "w", encoding="utf-8") as lines:
            for each in inputs:
                signal.setitimer(signal.ITIMER_PROF, SECONDS)  # SIGPROF ends the process, whatever it computes
                lines.write(json.dumps(_in_a_folder(each, made)) + "\n")
                lines.flush()
    finally:
        os._exit(0)


def _in_a_folder(given: Input, made: Path) -> tuple[str, str]:
    """Kind and text of an input whose folder is a copy of what was `made`."""
    folder = Path(tempfile.mkdtemp(dir=made.parent))
    try:
        shutil.copytree(made, folder, dirs_exist_ok=True)
        (folder / INNOCENT).write_text("mine")
        os.chdir(folder)
        kind, text = _hand_in(given, folder)
        if (made / MARK).exists():
            (made / MARK).unlink()
            return "code run", text
        return (kind if (folder / INNOCENT).read_text() == "mine" else "link followed"), text
    finally:
        os.chdir(made)
        shutil.rmtree(folder, ignore_errors=True)


def _hand_in(given: Input, folder: Path) -> tuple[str, str]:
    try:
        WAYS[given.way](random.Random(given.seed), folder)
    except (hpsde.HpsdeError, OSError) as error:  # the system's own words say which file, and why
        return ("message" if len(str(error)) > 10 else "traceback"), str(error)
    except BaseException:
        return "traceback", traceback.format_exc()
    return "answer", ""


# In the parent


def run(inputs: int, seed: int = 0, ways: tuple[str, ...] = tuple(WAYS)) -> tuple[dict[str, Counter[str]], int]:
    """Counts of what came of so many inputs by way in, and the largest memory. Prints what should not have come."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    # Children are forked by a process that has loaded everything and computed nothing: JAX has no threads yet.
    warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
    planned = [Input(ways[number % len(ways)], seed + number) for number in range(inputs)]
    largest, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else None) as scratch:
        made = Path(scratch) / "made"
        _make(made)
        for number, (given, found) in enumerate(zip(planned, outcomes(planned, made), strict=True), start=1):
            counts[given.way][found.kind] += 1
            largest = max(largest, found.memory)
            if found.kind not in GOOD:
                print(f"{given.way}, seed {given.seed}: {found.kind}: {found.text.strip()[-1500:]}", flush=True)
            if number % 10_000 == 0:
                print(f"{number} inputs after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return counts, largest


def _make(folder: Path) -> None:
    """Make the runs in a process of its own: this one must not compute."""
    maker = os.fork()
    if maker == 0:
        try:
            make_runs(folder)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(maker, 0)[1]:
        raise RuntimeError("the runs that inputs are made from could not be made")


def main() -> int:
    """Run them, print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others follow")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="which ways in")
    parser.add_argument("--results", type=Path, help="write the counts here, too")
    arguments = parser.parse_args()
    counts, largest = run(arguments.inputs, arguments.seed, tuple(arguments.ways))
    total = sum(counts.values(), Counter())
    summary = {"inputs": arguments.inputs, "first_seed": arguments.seed, "largest_memory_mib": largest >> 20, **total}
    if arguments.results is not None:
        by_way = {way: dict(sorted(found.items())) for way, found in counts.items()}
        arguments.results.write_text(json.dumps(summary | {"ways": by_way}, indent=2) + "\n")
    print(json.dumps(summary))
    return 1 if set(total) - set(GOOD) else 0


if __name__ == "__main__":
    sys.exit(main())
