"""Runs killed by SIGKILL at random moments and resumed: what is lost, and is the policy the same to the bit?

    python benchmarks/kill.py --runs 50
    python benchmarks/kill.py --kills 1000     # of runs that are as short as can be
    python benchmarks/kill.py --kills 500 --seed 1 --add --results FILE   # 500 more, added to what the file says

With `--kills` runs follow one another until so many kills have been done. Each is of contextual REPS with 40 rollouts,
so that starting it is most of what it costs. The seed decides the moments; with `--add` it must be a new one.

One run is left alone. Each of the others is started as `hpsde run`, killed after a random time, resumed, killed
again, and so on until it reaches its end. Every evaluation of the return function is noted in a file of its own,
outside the run, so that what was lost or done twice can be counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FUNCTION = '''
import os
from pathlib import Path

import numpy as np


def value(contexts, parameters, seeds):
    """Two ridges with noise; every call is noted with its rollouts' seeds."""
    with open(Path(__file__).with_name("calls.txt"), "a") as file:
        file.write(" ".join(map(str, seeds)) + "\\n")
        file.flush()
        os.fsync(file.fileno())
    noise = np.array([np.random.default_rng(seed).normal(0.0, 0.01) for seed in seeds])
    distance = np.abs(np.abs(parameters[:, 0] - 0.1 * contexts[:, 0]) - 0.6)
    return np.exp(-4.0 * distance) + noise
'''
RUN = [
    *("run", "returns.py:value", "--context", "uniform(0, 2)", "--initial", "uniform(-1, 1)", "--batched"),
    *("--chunk", "5", "--quiet", "--seed", "7", "--out", "run"),
]
WHOLE = ["--rollouts", "200", "--initial-rollouts", "100", "--batch", "25", "--max-options", "4"]
SHORT = ["--rollouts", "40", "--initial-rollouts", "20", "--batch", "10", "--method", "creps"]


def main() -> int:
    """Kill and resume, then compare; 0 if nothing was lost and all policies are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--kills", type=int, default=None, help="in place of --runs: short runs, so many kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="so many runs at the same time")
    parser.add_argument("--workers", type=int, default=None, help="evaluate in so many processes")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "kill.json")
    parser.add_argument("--add", action="store_true", help="to the results that are there, with another seed")
    chosen = parser.parse_args()
    before = json.loads(chosen.results.read_text()) if chosen.add else {"seeds": []}
    if chosen.seed in before["seeds"]:
        parser.error(f"seed {chosen.seed} is among the results already: {before['seeds']}")
    extra = [] if chosen.workers is None else ["--workers", str(chosen.workers)]
    words = [*RUN, *(WHOLE if chosen.kills is None else SHORT)]
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        environment = os.environ | {
            # Compiled once for all runs, so that kills fall into the run and not into the compiler.
            "JAX_COMPILATION_CACHE_DIR": str(base / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        prepare(base / "compile")
        start(base / "compile", [*words, *extra], environment).wait()
        prepare(base / "whole")
        started = time.monotonic()
        assert start(base / "whole", [*words, *extra], environment).wait() == 0
        seconds = time.monotonic() - started
        wanted = digest(base / "whole")
        print(f"a run takes {seconds:.1f} s; policy {wanted[:12]}", flush=True)

        def one(number: int) -> dict[str, int]:
            folder, row = base / f"run{number}", {"kills": 0}
            generator = random.Random(1000 * chosen.seed + number)
            while not row["kills"]:  # one that came to its end before it was killed does not count
                shutil.rmtree(folder, ignore_errors=True)
                prepare(folder)
                row = torture(folder, words, extra, environment, generator, seconds)
            row["same_policy"] = digest(folder) == wanted
            shutil.rmtree(folder)
            print(f"run {number}: {json.dumps(row)}", flush=True)
            return row

        rows: list[dict[str, int]] = []
        with ThreadPoolExecutor(chosen.jobs) as pool:
            while len(rows) < chosen.runs if chosen.kills is None else count(rows, "kills") < chosen.kills:
                left = chosen.runs - len(rows) if chosen.kills is None else chosen.jobs
                for row in pool.map(one, range(len(rows), len(rows) + left)):
                    rows.append(row)
                    write(chosen.results, before, chosen.seed, summarise(rows))
    summary = summarise(rows)
    print(json.dumps(summary))
    good = summary["identical_policies"] == len(rows) and not summary["told_lost"]
    return 0 if good and not summary["evaluated_twice_though_told"] else 1


def summarise(rows: list[dict[str, int]]) -> dict[str, int]:
    """Sums over the runs."""
    return {
        "runs": len(rows),
        **{name: count(rows, name) for name in ("kills", "told_lost", "evaluated_twice_though_told")},
        "identical_policies": count(rows, "same_policy"),
    }


def write(path: Path, before: dict[str, Any], seed: int, summary: dict[str, int]) -> None:
    """The results so far, those before included; after every run, so that an interruption loses none."""
    total = {name: before.get(name, 0) + value for name, value in summary.items()}
    path.write_text(json.dumps({"seeds": [*before["seeds"], seed], **total}, indent=2) + "\n")


def count(rows: list[dict[str, int]], name: str) -> int:
    """The sum over all runs."""
    return sum(row[name] for row in rows)


def prepare(folder: Path) -> None:
    """A folder with the return function in it."""
    folder.mkdir()
    (folder / "returns.py").write_text(FUNCTION)


def start(folder: Path, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """The command `hpsde` in that folder, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "hpsde", *arguments], cwd=folder, env=environment, start_new_session=True
    )


def torture(
    folder: Path,
    words: list[str],
    extra: list[str],
    environment: dict[str, str],
    generator: random.Random,
    seconds: float,
) -> dict[str, int]:
    """Kill and resume a run, made with these words, until it is done; how often, and what was lost."""
    kills, lost, twice, told = 0, 0, 0, {}
    while True:
        arguments = (
            ["resume", "run", "--quiet", *extra] if (folder / "run" / "config.json").exists() else [*words, *extra]
        )
        if arguments[0] == "run" and (folder / "run").exists():
            shutil.rmtree(folder / "run")  # killed before there was a run
        calls = evaluations(folder)
        process = start(folder, arguments, environment)
        try:
            code = process.wait(generator.uniform(0.0, 1.1 * seconds))
            if code:
                raise SystemExit(f"hpsde {arguments[0]} ended with {code}")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        now = rollouts(folder)
        lost += sum(now.get(number) != value for number, value in told.items())
        known = {seed for seed, _ in told.values()}
        twice += sum(seed in known for seed in evaluations(folder)[len(calls) :])
        told = now
        if process.returncode == 0:
            return {"kills": kills, "told_lost": lost, "evaluated_twice_though_told": twice}


def evaluations(folder: Path) -> list[int]:
    """The seeds of all rollouts that the return function has seen."""
    path = folder / "calls.txt"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def rollouts(folder: Path) -> dict[int, tuple[int, float]]:
    """Seed and return of every told rollout, as another program reads the database."""
    path = folder / "run" / "rollouts.sqlite"
    if not path.exists() or not (folder / "run" / "config.json").exists():
        return {}
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT id, seed, \"return\" FROM rollouts WHERE status = 'done'").fetchall()
    finally:
        connection.close()
    return {number: (seed, value) for number, seed, value in found}


def digest(folder: Path) -> str:
    """The policy file's content, which is the same bytes for the same policy."""
    return hashlib.sha256((folder / "run" / "policy.npz").read_bytes()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
