"""The weighted mixture against scikit-learn's: same data, same start, same number of iterations.

    python benchmarks/mixture.py [--iterations 20] [--repeats 5] [--sizes 500 2000 10000 100000]

Whole fits of both estimators from the same responsibilities, in turns, in one process; the median of the
repeats is shown. Both are told never to stop early, and their results must agree.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from hpsde.sklearn import WeightedBayesianGaussianMixture

FEATURES, COMPONENTS = 10, 20


class FromResponsibilities(BayesianGaussianMixture):
    """scikit-learn's estimator, started from responsibilities that are given."""

    first: np.ndarray

    def _initialize_parameters(self, X: np.ndarray, random_state: Any, xp: Any = None) -> None:
        self._initialize(X, self.first)


def make_data(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clusters, and responsibilities that mix each sample's own cluster with noise."""
    random = np.random.default_rng(samples)
    labels = random.integers(COMPONENTS, size=samples)
    centres = 2 * random.normal(size=(COMPONENTS, FEATURES))
    first = random.uniform(size=(samples, COMPONENTS)) + np.eye(COMPONENTS)[labels]
    return centres[labels] + random.normal(size=(samples, FEATURES)), first / first.sum(axis=1, keepdims=True)


def seconds(estimator: Any, x: np.ndarray) -> float:
    """Time of one fit."""
    begun = time.perf_counter()
    estimator.fit(x)
    return time.perf_counter() - begun


def compare(samples: int, iterations: int, repeats: int) -> dict[str, float]:
    """Times of both, and the largest difference between their results."""
    x, first = make_data(samples)
    theirs = FromResponsibilities(
        n_components=COMPONENTS,
        tol=0.0,
        max_iter=iterations,
    )
    theirs.first = first
    ours = WeightedBayesianGaussianMixture(COMPONENTS, tol=0.0, max_iter=iterations, init_params=first)
    cold = seconds(ours, x)
    seconds(theirs, x)
    pairs = [(seconds(theirs, x), seconds(ours, x)) for _ in range(repeats)]
    if not ours.n_iter_ == theirs.n_iter_ == iterations:
        raise RuntimeError(f"iterations differ: {ours.n_iter_} and {theirs.n_iter_}, asked {iterations}")
    difference = max(
        np.abs(ours.means_ - theirs.means_).max(),
        np.abs(ours.covariances_ - theirs.covariances_).max(),
        np.abs(ours.weights_ - theirs.weights_).max(),
    )
    their_time, our_time = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {
        "theirs": their_time,
        "ours": our_time,
        "ratio": their_time / our_time,
        "compile": cold - our_time,
        "difference": float(difference),
    }


def main() -> int:
    """Print the table; exit status 1 where the results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2_000, 10_000, 100_000])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{FEATURES} features, {COMPONENTS} components, {arguments.iterations} iterations")
    print(f"{'n':>8} {'scikit-learn s':>15} {'hpsde s':>9} {'ratio':>6} {'compile s':>10} {'difference':>11}")
    agree = True
    for samples in arguments.sizes:
        row = compare(samples, arguments.iterations, arguments.repeats)
        agree &= row["difference"] < 1e-6
        print(
            f"{samples:>8} {row['theirs']:>15.4f} {row['ours']:>9.4f} {row['ratio']:>6.1f} "
            f"{row['compile']:>10.2f} {row['difference']:>11.1e}",
            flush=True,
        )
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
