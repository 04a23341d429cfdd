"""Returns per second of the reach task: ours in a batch, and MuJoCo's one by one.

    python benchmarks/reach_returns.py [--batch 10000] [--repeats 5]

Both evaluate the same goals and joint angles in this process, on one core (where the system lets a process choose),
and in turn. What is timed is all that `evaluate` does, checks of its input included, after a first call that compiles
and loads. Rates are medians, per second of the core's time and, lower where other processes share the core, per second.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse
import time

import jax
import numpy as np

from hpsde.tasks import make_task

CALLS = 20


def seconds(task: str, goals: np.ndarray, q: np.ndarray, calls: int) -> tuple[float, float]:
    """CPU and wall seconds of one evaluation of the batch, the mean of so many calls."""
    evaluate = make_task(task).evaluate
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        evaluate(goals, q)
    return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls


def main() -> None:
    """Print the rates, their ratio, and by how much the returns differ at most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    reach, simulated = make_task("reach"), make_task("reach-mujoco")
    goals = reach.sample_contexts(jax.random.key(0), arguments.batch)
    q = reach.sample_initial(jax.random.key(1), goals)
    difference = np.max(np.abs(reach.evaluate(goals, q) - simulated.evaluate(goals, q)))
    ours, theirs = [], []
    for _ in range(arguments.repeats):
        ours.append(seconds("reach", goals, q, CALLS))
        theirs.append(seconds("reach-mujoco", goals, q, 1))
    print(f"batch of {arguments.batch}, one core; returns differ by at most {difference:.1e}")
    ours, theirs = np.median(ours, axis=0), np.median(theirs, axis=0)
    print(f"{'returns per':20s} {'CPU second':>14s} {'second':>14s}")
    for name, (cpu, wall) in (("ours, in a batch", ours), ("MuJoCo, one by one", theirs)):
        print(f"{name:20s} {arguments.batch / cpu:14,.0f} {arguments.batch / wall:14,.0f}")
    print(f"{'ratio':20s} {theirs[0] / ours[0]:14.1f} {theirs[1] / ours[1]:14.1f}")


if __name__ == "__main__":
    main()
