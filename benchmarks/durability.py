"""What durability costs: milliseconds per told rollout, in batches of 50 and one by one, against telling in memory.

    python benchmarks/durability.py

A run is made on the disk of the repository, beside the results, and removed afterwards. Every tell is one SQLite
transaction with full synchronisation. For comparison: the same rollouts told to `hpsde.HPSDE`, which keeps them in
memory, and a plain write of 4 KiB with fsync on the same disk. Ends with 1 if a rollout in a batch costs over 2 ms.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hpsde

BATCH, LIMIT_MS = 50, 2.0
S, D = 2, 5


def main() -> int:
    """Measure, print, write; 0 if a rollout costs little enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "durability.json")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.results.parent, prefix="durability-") as scratch:
        batches, singles = stored(Path(scratch) / "run", chosen.rollouts)
        disk = np.array([milliseconds(write_and_sync, Path(scratch) / f"file{i}") for i in range(100)])
    memory = in_memory(chosen.rollouts)
    summary = {
        "rollouts": chosen.rollouts,
        "batch": BATCH,
        "ms_per_rollout_in_batches": {"median": np.median(batches) / BATCH, "worst_batch": batches.max() / BATCH},
        "ms_per_rollout_one_by_one": {"median": np.median(singles), "worst": singles.max()},
        "ms_per_rollout_in_memory": np.median(memory) / BATCH,
        "ratio_to_memory_in_batches": np.median(batches) / np.median(memory),
        "ms_of_a_plain_write_with_fsync": np.median(disk),
    }
    summary = json.loads(json.dumps(summary), parse_float=lambda text: round(float(text), 4))
    print(json.dumps(summary, indent=2))
    chosen.results.write_text(json.dumps(summary, indent=2) + "\n")
    return 0 if summary["ms_per_rollout_in_batches"]["median"] <= LIMIT_MS else 1


def stored(folder: Path, rollouts: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of each tell of a stored run: of a batch, and of one rollout."""
    generator = np.random.default_rng(0)
    words = {"initial": hpsde.Uniform(np.zeros(D), 1.0), "context_size": S, "initial_rollouts": 2 * rollouts}
    with hpsde.Run.create(folder, rollouts=2 * rollouts, **words) as run:
        batches = []
        for _ in range(rollouts // BATCH):
            ids = [each.id for each in run.ask(generator.uniform(size=(BATCH, S)))]
            batches.append(milliseconds(run.tell, ids, generator.normal(size=BATCH)))
        ids = [each.id for each in run.ask(generator.uniform(size=(rollouts, S)))]
        singles = [milliseconds(run.tell, number, generator.normal()) for number in ids]
        told = run.status().done
    if told != rollouts // BATCH * BATCH + rollouts:
        raise SystemExit(f"{told} rollouts are stored")
    return np.array(batches), np.array(singles)


def in_memory(rollouts: int) -> np.ndarray:
    """Milliseconds of each tell of a batch to a learner that keeps nothing on disk."""
    generator = np.random.default_rng(0)
    learner = hpsde.HPSDE(S, D, initial=hpsde.Uniform(np.zeros(D), 1.0), initial_rollouts=2 * rollouts)
    times = []
    for _ in range(rollouts // BATCH):
        contexts = generator.uniform(size=(BATCH, S))
        parameters = learner.ask(contexts).parameters
        times.append(milliseconds(learner.tell, contexts, parameters, generator.normal(size=BATCH)))
    return np.array(times)


def write_and_sync(path: Path) -> None:
    """4 KiB on disk."""
    with open(path, "wb") as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())


def milliseconds(function: Callable[..., Any], *arguments: Any) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    function(*arguments)
    return 1000.0 * (time.perf_counter() - started)


if __name__ == "__main__":
    raise SystemExit(main())
