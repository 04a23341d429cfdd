"""Fit of the Gaussian process against scikit-learn's, same data, start, bounds; then option moments.

    python benchmarks/gp.py [--sizes 200 500 1000] [--repeats 3]

Both run in this process, one after the other in turn, with one BLAS thread and L-BFGS-B. scikit-learn's is
ConstantKernel * RBF (one length per dimension) + WhiteKernel, no restarts. Prints medians of wall and CPU
seconds, the log marginal likelihood at both optima, and how often each evaluated it. The last lines time the
analytic moments of 10 options x 200 contexts.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from hpsde.base.precision import double_precision
from hpsde.gp import DEFAULT_BOUNDS, Hyperparameters, condition, fit_hyperparameters, option_moments

DIMENSIONS = 8
TOLERANCE = 2.2e-9  # what scikit-learn's optimiser uses
START = (2.0, 1.0, 0.3)  # length, signal, noise


class CountingRegressor(GaussianProcessRegressor):
    """scikit-learn's, counting evaluations of the likelihood."""

    evaluations = 0

    def log_marginal_likelihood(self, *args: Any, **kwargs: Any) -> Any:
        """As scikit-learn's."""
        self.evaluations += 1
        return super().log_marginal_likelihood(*args, **kwargs)


def make_data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in 8 dimensions of unequal importance, noisy returns of unit variance."""
    rng = np.random.default_rng(n)
    z = rng.uniform(-2.0, 2.0, size=(n, DIMENSIONS))
    y = np.sin(2.0 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.3 * z[:, 3] ** 2 + 0.2 * z[:, 4] + 0.1 * rng.normal(size=n)
    return z, (y - y.mean()) / y.std()


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, wall seconds and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(function())
    return result, time.perf_counter() - wall, time.process_time() - cpu


def fit_ours(z: np.ndarray, y: np.ndarray) -> tuple[Hyperparameters, float, int]:
    """Our maximum of the likelihood from START: hyper-parameters, log likelihood, evaluations."""
    length, signal, noise = np.log(START)
    start = Hyperparameters(np.full(DIMENSIONS, length), signal, noise)
    found, info = fit_hyperparameters(z, y, start=start, prior=None, fit_points=len(z), tolerance=TOLERANCE)
    return found, info.log_likelihood, info.evaluations


def fit_sklearn(z: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """scikit-learn's from the same start within the same bounds (theirs are variances)."""
    spread = np.std(z, axis=0)
    length, signal, noise = START
    of_returns = np.sqrt(np.mean(y**2))
    lengths = np.outer(spread, DEFAULT_BOUNDS.length)
    kernel = ConstantKernel(signal**2, tuple((of_returns * np.array(DEFAULT_BOUNDS.signal)) ** 2)) * RBF(
        np.full(DIMENSIONS, length), lengths
    ) + WhiteKernel(noise**2, tuple((of_returns * np.array(DEFAULT_BOUNDS.noise)) ** 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # lengths of the coordinates without meaning: at the bound
        process = CountingRegressor(kernel, n_restarts_optimizer=0).fit(z, y)
    return process.log_marginal_likelihood_value_, process.evaluations


def compare(n: int, repeats: int) -> tuple[Hyperparameters, float]:
    """Print one line of the comparison; our hyper-parameters and our median wall time."""
    z, y = make_data(n)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(timed(lambda: fit_ours(z, y)))
        theirs.append(timed(lambda: fit_sklearn(z, y)))
    (found, log_p, evaluations), (their_log_p, their_evaluations) = ours[0][0], theirs[0][0]
    wall, cpu = (statistics.median(run[k] for run in ours) for k in (1, 2))
    their_wall, their_cpu = (statistics.median(run[k] for run in theirs) for k in (1, 2))
    print(
        f"{n:6d} {wall:9.3f} {cpu:9.3f} {their_wall:9.3f} {their_cpu:9.3f} {their_wall / wall:8.2f}"
        f" {log_p:12.4f} {their_log_p:12.4f} {log_p - their_log_p:11.2e}"
        f" {evaluations:5d} {their_evaluations:6d}",
        flush=True,
    )
    return found, wall


@double_precision
def time_moments(n: int, found: Hyperparameters, fit_seconds: float, repeats: int) -> None:
    """Print the time of posterior and moments for 10 options x 200 contexts, and its ratio to the fit."""
    z, y = make_data(n)
    rng = np.random.default_rng(0)
    D, options, contexts = DIMENSIONS - 1, 10, 200
    root = 0.3 * rng.normal(size=(options, D, D))
    query = (
        rng.uniform(-2.0, 2.0, size=(options, contexts, D)),
        root @ np.swapaxes(root, 1, 2),
        rng.uniform(-2.0, 2.0, size=(contexts, 1)),
    )
    conditioning = [timed(lambda: condition(found, z, y, np.ones(n, bool), 0.0)) for _ in range(repeats + 1)]
    gp = conditioning[0][0]
    moments = [timed(lambda: option_moments(gp, *query)) for _ in range(repeats + 1)]
    posterior, seconds = (statistics.median(run[1] for run in runs[1:]) for runs in (conditioning, moments))
    print(f"\nn = {n}, {options} options x {contexts} contexts, mean and both variances (after compilation):")
    print(f"posterior {posterior:.3f} s; moments {seconds:.3f} s = {seconds / fit_seconds:.3f} of the fit")


def main() -> None:
    """Run the comparison for all sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1000], help="add 2000 for a minute more")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("                 ours, s        scikit-learn, s                 log likelihood")
    header = "     n      wall       CPU      wall       CPU    ratio         ours       theirs  difference"
    print(f"{header}  calls, theirs")
    for n in arguments.sizes:
        found, seconds = compare(n, arguments.repeats)
    time_moments(n, found, seconds, arguments.repeats)


if __name__ == "__main__":
    main()
