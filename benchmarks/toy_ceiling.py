"""What toy-triple's greedy return could be at best, where the contexts of the rollouts are all that is known of it.

    python benchmarks/toy_ceiling.py [--seeds 20] [--first-seed 100]

Each context has one best line, and which one changes at s = 0.7 and 1.4, two of the 201 contexts that a policy is
judged by. Here an oracle knows the three lines to the last digit, and which of them is best in the context of every
rollout, which a learner knows of few. Elsewhere it takes the line of the nearest rollout: from the data alone nothing
says on which side of the gap between two rollouts the jump lies. Prints its mean return in the median seed.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

from hpsde.tasks import make_task
from hpsde.tasks.toy import TRIPLE_LINES


def ceiling(seed: int) -> float:
    """The oracle's mean return over the evaluation contexts."""
    task = make_task("toy-triple")
    seen = np.sort(np.asarray(task.sample_contexts(jax.random.key(seed), task.rollouts))[:, 0])
    asked = np.asarray(task.evaluation_contexts())
    nearest = seen[np.abs(asked - seen[None]).argmin(axis=1)]
    starts = [line[0] for line in TRIPLE_LINES.values()]
    lines = [list(TRIPLE_LINES.values())[k] for k in np.searchsorted(starts, nearest, side="right") - 1]
    actions = np.array([slope * s + intercept for (_, _, slope, intercept), (s,) in zip(lines, asked, strict=True)])
    return float(np.mean(task.evaluate(asked, actions[:, None])))


def main() -> None:
    """Print the oracle's return of every seed, and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100)
    given = parser.parse_args()
    found = [ceiling(seed) for seed in range(given.first_seed, given.first_seed + given.seeds)]
    print(" ".join(f"{each:.4f}" for each in found))
    print(f"median {np.median(found):.5f}, best {max(found):.5f}")


if __name__ == "__main__":
    main()
