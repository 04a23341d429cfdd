"""hpsde's parts beside other libraries: Gaussian process, mixture, and a policy in use, in one process, in turns.

    python benchmarks/peers_parts.py [--sizes 500 1000 2000 4000 8000] [--mixture 1000 10000 100000] [--out FILE.md]

CPU seconds, one thread. gp: ten evaluations of the marginal likelihood with its gradient in 8 dimensions, and the
prediction of 1,000 means and deviations, beside scikit-learn, and tinygp where it is installed.
mixture: ten iterations of 20 components in 10 dimensions from the same start, beside scikit-learn. act: what a policy
does in 1,000 contexts, two options and 1,000 points, beside the same two predictions by scikit-learn's process; what a
few points tell of the options decides nearly everywhere (policy/spans.py).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from hpsde import gp
from hpsde.gp.lapack import lapack_likelihood

DIMENSIONS, EVALUATIONS, QUERIES = 8, 10, 1000
LENGTH, NOISE = 2.0, 0.1


def cpu(function: Callable[[], Any], repeats: int = 1) -> float:
    """CPU seconds of a call, the least of some."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        found.append(time.process_time() - begun)
    return min(found)


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in 8 dimensions and noisy returns."""
    rng = np.random.default_rng(n)
    z = rng.normal(size=(n, DIMENSIONS))
    return z, np.sin(z[:, 0]) + 0.5 * z[:, 1] * z[:, 2] + NOISE * rng.normal(size=n)


def theirs(z: np.ndarray, y: np.ndarray) -> Any:
    """scikit-learn's process with the same kernel, conditioned."""
    kernel = ConstantKernel(1.0) * RBF([LENGTH] * DIMENSIONS) + WhiteKernel(NOISE**2)
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-6).fit(z, y)


def process(n: int) -> list[str]:
    """Rows of the Gaussian process."""
    z, y = data(n)
    new = np.random.default_rng(1).normal(size=(QUERIES, DIMENSIONS))
    theta = np.log([LENGTH] * DIMENSIONS + [1.0, NOISE])
    likelihood, other = lapack_likelihood(z - z.mean(axis=0), y), theirs(z, y)
    of_other = np.log([1.0, *[LENGTH] * DIMENSIONS, NOISE**2])
    count = EVALUATIONS if n <= 2000 else 1
    ours = EVALUATIONS / count * cpu(lambda: [likelihood(theta) for _ in range(count)])
    its = (
        EVALUATIONS
        / count
        * cpu(
            lambda: [
                other.log_marginal_likelihood(of_other, eval_gradient=True, clone_kernel=False) for _ in range(count)
            ]
        )
    )
    known = gp.Hyperparameters(jnp.asarray(theta[:-2]), jnp.asarray(theta[-2]), jnp.asarray(theta[-1]))
    posterior = gp.posterior(known, z, y, np.ones(n, dtype=bool))
    gp.predict(posterior, new)
    predicted = cpu(lambda: gp.predict(posterior, new), 3)
    other_predicted = cpu(lambda: other.predict(new, return_std=True), 3)
    return [
        line(f"10 likelihoods with gradients, n = {n:,}", ours, its, "scikit-learn"),
        line(f"1,000 predictions, n = {n:,}", predicted, other_predicted, "scikit-learn"),
        *(line(f"10 likelihoods with gradients, n = {n:,}", ours, found, name) for name, found in rivals(z, y, count)),
    ]


def rivals(z: np.ndarray, y: np.ndarray, count: int) -> list[tuple[str, float]]:
    """CPU seconds of tinygp's likelihood with its gradient, where it is installed."""
    try:
        import tinygp
    except ImportError:
        return []

    def loss(theta: Any) -> Any:
        kernel = tinygp.transforms.Linear(jnp.exp(-theta[:-2]), tinygp.kernels.ExpSquared())
        made = tinygp.GaussianProcess(jnp.exp(2.0 * theta[-2]) * kernel, jnp.asarray(z), diag=jnp.exp(2.0 * theta[-1]))
        return made.log_probability(jnp.asarray(y))

    compiled = jax.jit(jax.value_and_grad(loss))
    theta = jnp.log(jnp.asarray([LENGTH] * DIMENSIONS + [1.0, NOISE]))
    jax.block_until_ready(compiled(theta))
    spent = cpu(lambda: [jax.block_until_ready(compiled(theta)) for _ in range(count)])
    return [("tinygp", EVALUATIONS / count * spent)]


def mixture(n: int) -> list[str]:
    """A row of the mixture."""
    from sklearn.mixture import BayesianGaussianMixture

    from hpsde.sklearn import WeightedBayesianGaussianMixture

    rng = np.random.default_rng(n)
    labels = rng.integers(20, size=n)
    x = 2.0 * rng.normal(size=(20, 10))[labels] + rng.normal(size=(n, 10))
    first = rng.uniform(size=(n, 20)) + np.eye(20)[labels]
    first /= first.sum(axis=1, keepdims=True)
    ours = WeightedBayesianGaussianMixture(20, tol=0.0, max_iter=10, init_params=first)
    other = BayesianGaussianMixture(n_components=20, tol=0.0, max_iter=10, init_params="random", random_state=0)
    ours.fit(x)
    return [
        line(f"mixture, 10 iterations, n = {n:,}", cpu(lambda: ours.fit(x)), cpu(lambda: other.fit(x)), "scikit-learn")
    ]


def acting() -> list[str]:
    """A policy of two options in use, beside two predictions."""
    from hpsde.policy.acting import GPInUse

    z, y = data(1000)
    z = z[:, :2]
    posterior = gp.posterior(
        gp.Hyperparameters(jnp.zeros(2), jnp.asarray(0.0), jnp.asarray(np.log(NOISE))), z, y, np.ones(1000, dtype=bool)
    )
    fields = {f"gate_{name}": np.asarray(getattr(posterior, name)) for name in ("z", "mask", "beta", "centre", "mean")}
    fields |= {f"gate_{name}": np.asarray(value) for name, value in posterior.hyperparameters._asdict().items()}
    knots = {"gate_warp_returns": np.array([-1.0, 1.0]), "gate_warp_scores": np.array([-1.0, 1.0])}
    flags = {"gate_cautious": np.array(True), "gate_binary": np.array(False), "gate_kernel_tau": np.ones(1)}
    gate = GPInUse(
        fields | knots | flags | {"gate_scores": y, "gate_kernel_w": np.ones(1), "gate_known": np.zeros((0, 0))},
        np.zeros((2, 1, 1)),
    )
    contexts, both = np.linspace(-1.0, 1.0, QUERIES)[:, None], np.full(2, True)
    means = np.stack([contexts, -contexts])
    gate.prepare(means[:, ::10], contexts[::10])
    other = GaussianProcessRegressor(RBF([1.0, 1.0]) + WhiteKernel(NOISE**2), optimizer=None).fit(z, y)
    points = np.concatenate([np.concatenate([each, contexts], axis=1) for each in means])
    chosen = cpu(lambda: gate.choose(means, contexts, both), 5)
    one = cpu(lambda: [gate.choose(means[:, :1], contexts[:1], both) for _ in range(100)], 3) / 100
    its = cpu(lambda: other.predict(points, return_std=True), 5)
    its_one = cpu(lambda: [other.predict(points[:2], return_std=True) for _ in range(100)], 3) / 100
    return [
        line("act, 1,000 contexts, two options, 1,000 points", chosen, its, "scikit-learn's predict"),
        line("act, one context", one, its_one, "scikit-learn's predict"),
    ]


def line(what: str, ours: float, others: float, name: str) -> str:
    """A row of the table."""
    return f"| {what} | {ours:.3g} | {others:.3g} | {name} | {others / max(ours, 1e-9):.3g} |"


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 1000, 2000, 4000, 8000])
    parser.add_argument("--mixture", type=int, nargs="*", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    lines = ["| what | hpsde, CPU s | other, CPU s | which | ratio |", "|---|---|---|---|---|"]
    print(*lines, sep="\n")
    jobs: list[Callable[[], list[str]]] = [acting]
    jobs += [lambda n=n: process(n) for n in given.sizes]  # type: ignore[misc]
    jobs += [lambda n=n: mixture(n) for n in given.mixture]  # type: ignore[misc]
    for job in jobs:
        found = job()
        lines += found
        print(*found, sep="\n", flush=True)
        if given.out is not None:
            given.out.write_text("\n".join(["# Parts beside peers", "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
