"""Speed of the puddle task's rollouts beside a loop that follows its statement step by step; its best returns.

    python benchmarks/puddle_rollouts.py [--rollouts 20000] [--slow-rollouts 1000] [--optimum] [--policies]

Rollouts are half the initial policy's, half good routes with noise. Prints rollouts per second of one core (CPU
time), their ratio, and how far the two differ. With --optimum, the shortest route through every gap in every evaluation
context: with 301 steps the route is linear in the parameters and its length convex. With --policies, the best that
options can do whose parameters are linear in hpsde's features, the shorter the nearer their routes may come to puddles.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.optimize

from hpsde.steps.features import ContextFeatures
from hpsde.tasks.puddle import GAPS, PUDDLES, Puddle

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import slow_puddle

LEAST_SECONDS = 2.0


def make_rollouts(task: Puddle, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Contexts [n, 1] and parameters [n, 10]: of the initial policy, and of the known solutions with noise."""
    contexts = task.sample_contexts(jax.random.key(0), n)
    parameters = task.sample_initial(jax.random.key(1), contexts)
    good = np.stack([solution.parameters(contexts) for solution in task.solutions])[np.arange(n) % 4, np.arange(n)]
    noisy = good + np.random.default_rng(2).normal(0.0, 0.1, good.shape)
    return contexts, np.where(np.arange(n)[:, None] % 8 < 4, parameters, noisy)


def per_second(evaluate: Callable[[], Any], n: int) -> float:
    """Rollouts per second of CPU time, over some seconds."""
    evaluate()
    start, done = time.process_time(), 0
    while time.process_time() - start < LEAST_SECONDS:
        evaluate()
        done += n
    return done / (time.process_time() - start)


def compare(n: int, slow_n: int) -> None:
    """Print both speeds and the differences."""
    task = Puddle()
    contexts, parameters = make_rollouts(task, n)
    for batch in sorted({1, 50, 1000, n}):
        fast = per_second(lambda: task.evaluate(contexts[:batch], parameters[:batch]), batch)  # noqa: B023 - used at once
        print(f"in batches of {batch:6d}: {fast:10.0f} rollouts/s")
    start = time.process_time()
    slow = [slow_puddle.rollout(s, a) for (s,), a in zip(contexts[:slow_n], parameters[:slow_n], strict=True)]
    slow_speed = slow_n / (time.process_time() - start)
    print(f"step by step:         {slow_speed:10.0f} rollouts/s; ratio {fast / slow_speed:.0f}")
    _, lengths, collisions = map(np.array, zip(*slow, strict=True))
    returns = task.evaluate(contexts[:slow_n], parameters[:slow_n])
    difference = np.max(np.abs(returns / (-lengths - 50 * collisions) - 1.0))
    unequal = np.sum(task.collisions(contexts[:slow_n], parameters[:slow_n]) != collisions)
    routes = task.routes(contexts[:slow_n], parameters[:slow_n])
    heights = routes[(routes[:, :, 0] > 1.9) & (routes[:, :, 0] < 4.1)][:, 1]
    ties = min(np.min(np.abs(heights - edge)) for edge in np.ravel(PUDDLES))
    print(
        f"of {slow_n} rollouts: largest relative difference of returns {difference:.1e}, unequal collisions {unequal},"
    )
    print(f"point closest to a puddle's edge {ties:.1e}")


def shortest(task: Puddle, s: float, gap: str) -> float:
    """The best return through a gap: least length over the parameters, its points in the wall within the gap."""
    base = task.routes(np.full((11, 1), s), np.concatenate([np.zeros((1, 10)), 1e-3 * np.eye(10)]))
    x, rest, response = base[0, :, 0], base[0, :, 1], (base[1:, :, 1] - base[0, :, 1]).T / 1e-3
    within = np.append(np.flatnonzero((x > 1.9) & (x < 4.1)), 99)
    low, high = (np.full(len(within), edge) for edge in np.add(GAPS[gap], (1e-6, -1e-6)))
    low[-1], high[-1] = s - 0.00999, s + 0.00999

    def length(a: np.ndarray) -> tuple[float, np.ndarray]:
        dy = np.diff(rest + response @ a)
        segments = np.hypot(np.diff(x), dy)
        return segments.sum(), (dy / segments) @ np.diff(response, axis=0)

    A, b = response[within], rest[within]
    bounds = [
        {"type": "ineq", "fun": lambda a: b + A @ a - low, "jac": lambda a: A},
        {"type": "ineq", "fun": lambda a: high - b - A @ a, "jac": lambda a: -A},
    ]
    start = next(each for each in task.solutions if each.name == gap).parameters(np.array([[s]]))[0]
    found = scipy.optimize.minimize(length, start, jac=True, method="SLSQP", constraints=bounds)
    return float(task.evaluate([[s]], [found.x])[0])


def print_optimum() -> None:
    """Print the best returns over the evaluation contexts, and where each gap is the best."""
    task = Puddle()
    contexts = task.evaluation_contexts()[:, 0]
    best = np.array([[shortest(task, float(s), gap) for gap in GAPS] for s in contexts])
    of_context = best.max(axis=1)
    print(f"best returns: mean {of_context.mean():.3f}, from {of_context.min():.2f} to {of_context.max():.2f}")
    for number, gap in enumerate(GAPS):
        here = contexts[best.argmax(axis=1) == number]
        span = f", s {here.min():.2f} to {here.max():.2f}" if len(here) else ""
        print(f"{gap}: the best in {len(here) / len(contexts):.0%} of the contexts{span}")


def best_policy(task: Puddle, contexts: np.ndarray, gap: str, clearance: float) -> np.ndarray:
    """Returns [N] of the policy through a gap whose mean length is least, its routes keeping clear of puddles.

    Its parameters are linear in the squared-exponential features. Penalties grow until they hold.
    """
    base = task.routes(contexts, np.zeros((len(contexts), 10)))
    x, rest = base[0, :, 0], base[:, :, 1]
    response = task.routes(np.zeros((10, 1)), 1e-3 * np.eye(10)) - task.routes(np.zeros((10, 1)), np.zeros((10, 10)))
    response = response[:, :, 1].T / 1e-3
    features = ContextFeatures("squared-exponential").make(contexts)(contexts)
    design = np.concatenate([np.ones((len(contexts), 1)), features], axis=1)
    wall, (low, high) = (x > 1.9) & (x < 4.1), np.add(GAPS[gap], (clearance, -clearance))
    start = next(each for each in task.solutions if each.name == gap).parameters(contexts)
    numbers = np.linalg.lstsq(design, start, rcond=None)[0].ravel()

    def cost(numbers: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        y = rest + design @ numbers.reshape(-1, 10) @ response.T
        dy, end = np.diff(y), y[:, -1] - contexts[:, 0]
        segments = np.hypot(np.diff(x), dy)
        below, above = np.maximum(low - y[:, wall], 0.0), np.maximum(y[:, wall] - high, 0.0)
        total = segments.sum() + penalty * (np.sum(below**2 + above**2) + 100.0 * np.sum(end**2))
        slope = (dy / segments) @ np.diff(response, axis=0) + 2.0 * penalty * (above - below) @ response[wall]
        slope += 200.0 * penalty * end[:, None] * response[-1]
        return total / len(contexts), (design.T @ slope).ravel() / len(contexts)

    for penalty in (10.0, 100.0, 1e3, 1e4):
        options = {"maxiter": 3000, "maxfun": 5000}
        found = scipy.optimize.minimize(cost, numbers, (penalty,), "L-BFGS-B", jac=True, options=options)
        numbers = found.x
    return task.evaluate(contexts, design @ numbers.reshape(-1, 10))


def print_policies() -> None:
    """Print the mean return of the best option in every evaluation context, for options that keep so clear."""
    task = Puddle()
    contexts = task.evaluation_contexts()[::2]
    for clearance in (0.02, 0.1, 0.2, 0.3):
        returns = np.max([best_policy(task, contexts, gap, clearance) for gap in GAPS], axis=0)
        print(f"options {clearance} clear of puddles: mean return {returns.mean():.3f}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=20_000)
    parser.add_argument("--slow-rollouts", type=int, default=1000)
    parser.add_argument("--optimum", action="store_true")
    parser.add_argument("--policies", action="store_true")
    arguments = parser.parse_args()
    if arguments.optimum or arguments.policies:
        print_optimum() if arguments.optimum else print_policies()
    else:
        compare(arguments.rollouts, arguments.slow_rollouts)


if __name__ == "__main__":
    main()
