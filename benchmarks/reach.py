"""The arm over many seeds with the defaults: successes, postures on both sides of the pole, returns, seconds.

    python benchmarks/reach.py [--seeds 20] [--first-seed 0] [--method hpsde-reps-gp] [--rollouts 4000] [--out FILE]

Every run has 500 initial and 3500 further rollouts, or as many as are asked for, and is judged by its greedy policy on
the 125 evaluation goals:

  final_return                   after all rollouts
  success, strict_success        the share of goals that the flange is within 0.02 m (0.01 m) of, without contact and
                                 within the limits of the joints
  both_sides                     the share of goals at which some option succeeds on the left of the pole and another
                                 one on the right
  families, options              of four posture families, those in which one option succeeds at 80 % of the goals
  learner_seconds                all of the learner's; the first run of a process compiles, the others are warm
  best_option_return             what the return would be if the gate chose the best option everywhere

Writes one line per seed to benchmarks/results/reach.csv, and prints the figures beside their targets.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Sequence
from pathlib import Path

from hpsde.experiments.benchmark import Benchmark, Line, Target, main, median, share, warm_median
from hpsde.experiments.rows import Row

FURTHER = 3500


def summarise(rows: Sequence[Row]) -> Line:
    """The line of a run."""
    last = rows[-1]
    return {
        "final_return": last["greedy_mean_return"],
        "success": last["success"],
        "strict_success": last["strict_success"],
        "both_sides": last["both_sides"],
        "families": last["solutions_found"],
        "options": last["options_kept"],
        "best_option_return": last["best_option_return"],
        "learner_seconds": last["learner_seconds"],
    }


TARGETS = (
    Target("success, median", median("success"), 0.95),
    Target("strict success, median", median("strict_success"), 0.7),
    Target("share of seeds with both sides at 80 % of the goals", share("both_sides", 0.8), 0.8),
    Target("final return, median", median("final_return"), -0.02),
    Target("learner seconds, warm, median", warm_median("learner_seconds"), 60.0, at_most=True),
)

if __name__ == "__main__":
    main(Benchmark("reach", summarise, TARGETS, every=FURTHER), __doc__, Path(__file__).parent / "results")
