"""The puddle over many seeds with the defaults: returns, routes free of puddles, gaps, options, seconds.

    python benchmarks/puddle.py [--seeds 20] [--first-seed 0] [--method hpsde-reps-gp] [--out FILE]

Every run has 600 initial and 900 further rollouts, and is judged by its greedy policy on the 221 evaluation contexts:

  final_return, collision_free   after all rollouts
  gaps, options                  of four gaps, those that the mean route of some option takes in a tenth of the contexts
  early_return                   after 600 + 300 rollouts
  worst_later_return             the lowest after any iteration from 600 + 300 rollouts on
  learner_seconds                all of the learner's; the first run of a process compiles, the others are warm
  best_option_return             what the return would be if the gate chose the best option everywhere

Writes one line per seed to benchmarks/results/puddle.csv, and prints the figures beside their targets.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Sequence
from pathlib import Path

from hpsde.experiments.benchmark import Benchmark, Line, Target, main, median, share, warm_median, worst
from hpsde.experiments.rows import Row

EARLY = 900


def summarise(rows: Sequence[Row]) -> Line:
    """The line of a run."""
    later = [row["greedy_mean_return"] for row in rows if row["rollouts"] >= EARLY]
    last = rows[-1]
    return {
        "final_return": last["greedy_mean_return"],
        "collision_free": last["collision_free"],
        "gaps": last["solutions_found"],
        "options": last["options_kept"],
        "early_return": later[0],
        "worst_later_return": min(later),
        "best_option_return": last["best_option_return"],
        "learner_seconds": last["learner_seconds"],
    }


TARGETS = (
    Target("final return, median", median("final_return"), -8.0),
    Target("final return, worst seed", worst("final_return"), -10.0),
    Target("share of routes free of puddles, median", median("collision_free"), 0.995),
    Target("share of routes free of puddles, worst seed", worst("collision_free"), 0.98),
    Target("share of seeds with all four gaps", share("gaps", 4.0), 0.9),
    Target("return after 600 + 300 rollouts, median", median("early_return"), -9.0),
    Target("return after any later iteration of any seed, worst", worst("worst_later_return"), -15.0),
    Target("learner seconds, warm, median", warm_median("learner_seconds"), 30.0, at_most=True),
)

if __name__ == "__main__":
    main(Benchmark("puddle", summarise, TARGETS), __doc__, Path(__file__).parent / "results")
