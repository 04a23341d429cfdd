"""How well one option can reach all goals: the best policy that is linear, or quadratic, in the goal.

    python benchmarks/reach_ceiling.py [--steps 3000]

For each of the four posture families of the arm, the mean posture q(s) = W phi(s) that maximises the true return is
sought by its gradient, which no learner has, at 500 random goals, and judged at the 125 evaluation goals. What a
learner lacks of these figures it lacks because of its rollouts, not because of its policy.

Prints and writes (benchmarks/results/reach_ceiling.csv) one row for every family and policy.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.tasks import make_task
from hpsde.tasks.kinematics import KUKA_LWR
from hpsde.tasks.reach import GOALS, KUKA_POSTURES, MARGIN, POLE, nearest_angles, reach_returns

RATE, MOMENTUM, SCALE = 0.02, 0.9, 0.99  # Adam's
ORDERS = {"linear": 1, "quadratic": 2}


def features(goals: np.ndarray, order: int) -> np.ndarray:
    """1, the goal scaled to [-1, 1], and its products in pairs."""
    low, high = GOALS.bounds
    scaled = (goals - 0.5 * (low + high)) / (0.5 * (high - low))
    i, j = np.triu_indices(scaled.shape[1])
    parts = [np.ones((len(goals), 1)), scaled, scaled[:, i] * scaled[:, j]]
    return np.concatenate(parts[: 1 + order], axis=1)


def maximise(goals: np.ndarray, phi: np.ndarray, start: np.ndarray, steps: int) -> np.ndarray:
    """W [F, 7] of the highest mean return at the goals."""

    def lack(W: jax.Array) -> jax.Array:
        return -jnp.mean(reach_returns(KUKA_LWR, POLE, MARGIN, goals, phi @ W))

    gradient = jax.grad(lack)

    def step(t: jax.Array, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        W, first, second = state
        g = jnp.nan_to_num(gradient(W))
        first = MOMENTUM * first + (1.0 - MOMENTUM) * g
        second = SCALE * second + (1.0 - SCALE) * g**2
        mean, size = first / (1.0 - MOMENTUM ** (t + 1.0)), jnp.sqrt(second / (1.0 - SCALE ** (t + 1.0)))
        return W - RATE * (1.0 - t / steps) * mean / (size + 1e-9), first, second

    nothing = jnp.zeros_like(start)
    return np.asarray(
        jax.jit(lambda W: jax.lax.fori_loop(0, steps, step, (W, nothing, nothing)))(jnp.asarray(start))[0]
    )


def main() -> None:
    """Maximise for each family and policy, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "reach_ceiling.csv")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    task, rows = make_task("reach"), []
    seen, judged = np.asarray(task.sample_contexts(jax.random.key(0), 500)), np.asarray(task.evaluation_contexts())
    print(f"{'family':20} {'policy':10} {'return':>9} {'success':>8} {'strict':>8}")
    for family, posture in KUKA_POSTURES.items():
        q = nearest_angles(KUKA_LWR, posture, seen)
        for policy, order in ORDERS.items():
            phi = features(seen, order)
            W = maximise(seen, phi, np.linalg.lstsq(phi, q, rcond=None)[0], arguments.steps)
            chosen = features(judged, order) @ W
            told = task.measures(judged, chosen)
            row = {"family": family, "policy": policy, "return": float(task.evaluate(judged, chosen).mean())}
            row |= {"success": float(told["success"].mean()), "strict_success": float(told["strict_success"].mean())}
            rows.append(row)
            print(f"{family:20} {policy:10} {row['return']:9.5f} {row['success']:8.1%} {row['strict_success']:8.1%}")
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
