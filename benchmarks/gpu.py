"""What a graphics processor gains: Gaussian process, mixture and learner on it, beside the CPU of the same machine.

    python benchmarks/gpu.py [--parts gp mixture sparse learner bits] [--sizes 8000 20000 50000] [--out FILE.md]

gp: seconds of 25 evaluations of the likelihood with its gradient, 8 dimensions, and of one posterior with K^-1, after a
first one that compiles; the most memory that the device had; beside LAPACK on all cores (one evaluation, times 25) and
gpytorch's exact likelihood on the same device, where it is installed. mixture: 10 iterations of 20 components in 10
dimensions, the data on the device already; beside scikit-learn where it is installed. sparse: one posterior of n
rollouts by way of 1,024 points. learner: seconds by the clock of `hpsde.learn` in a process that compiles everything,
and once more. bits: whether two processes learn the same policy from one seed. Each measurement has its own process.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DIMENSIONS, EVALUATIONS = 8, 25
RESULTS = Path(__file__).parent / "results" / "gpu.md"
PARTS = ("gp", "sparse", "mixture", "bits", "learner")


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in 8 dimensions and noisy returns of mean 0."""
    rng = np.random.default_rng(n)
    z = rng.normal(size=(n, DIMENSIONS))
    y = np.sin(z[:, 0]) + 0.5 * z[:, 1] * z[:, 2] + 0.1 * rng.normal(size=n)
    return z, y - y.mean()


def thetas() -> np.ndarray:
    """Where the likelihood is evaluated: near the lengths that fit."""
    rng = np.random.default_rng(0)
    start = np.log([2.0] * DIMENSIONS + [1.0, 0.1])
    return np.asarray(start + 0.05 * rng.normal(size=(EVALUATIONS, len(start))))


def clock(function: Callable[[], Any]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def peak_gb() -> float:
    """The most memory in use on the default device."""
    import jax

    found = jax.devices()[0].memory_stats() or {}
    return round(found.get("peak_bytes_in_use", 0) / 1e9, 1)


def gp_fit(n: int) -> dict[str, Any]:
    """25 likelihoods with gradients on the default device."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from hpsde.gp.likelihood import jax_likelihood

    z, y = data(n)
    likelihood = jax_likelihood(z, y)
    first = clock(lambda: likelihood(thetas()[0]))
    seconds = clock(lambda: [likelihood(theta) for theta in thetas()])
    return {"seconds": seconds, "first": first, "peak_gb": peak_gb(), "value": likelihood(thetas()[0])[0]}


def gp_fit_cpu(n: int) -> dict[str, Any]:
    """The same by LAPACK, from one evaluation."""
    from hpsde.gp.lapack import lapack_likelihood

    z, y = data(n)
    likelihood = lapack_likelihood(z, y)
    value: list[float] = []
    seconds = clock(lambda: value.append(likelihood(thetas()[0])[0]))
    return {"seconds": EVALUATIONS * seconds, "value": value[0]}


def gp_fit_gpytorch(n: int) -> dict[str, Any]:
    """The same by gpytorch's exact marginal likelihood, by Cholesky, in double precision."""
    import gpytorch
    import torch

    z, y = (torch.as_tensor(each, dtype=torch.float64, device="cuda") for each in data(n))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().cuda()

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__(z, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=DIMENSIONS))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Exact().double().cuda()
    model.train()
    likelihood.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def evaluate(theta: np.ndarray) -> float:
        values = np.exp(theta)
        model.covar_module.base_kernel.lengthscale = z.new_tensor(values[None, :DIMENSIONS])
        model.covar_module.outputscale = float(values[-2]) ** 2
        likelihood.noise = float(values[-1]) ** 2 + 1e-6 * float(values[-2]) ** 2
        model.zero_grad()
        with gpytorch.settings.fast_computations(False, False, False):
            value = objective(model(z), y)
            value.backward()
        torch.cuda.synchronize()
        return float(value) * n

    first = clock(lambda: evaluate(thetas()[0]))
    count = 5
    seconds = EVALUATIONS / count * clock(lambda: [evaluate(theta) for theta in thetas()[:count]])
    peak = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    return {"seconds": seconds, "first": first, "peak_gb": peak, "value": evaluate(thetas()[0])}


def gp_posterior(n: int) -> dict[str, Any]:
    """One posterior with its K^-1 on the device, compiled before; learners take it to the CPU then."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    from hpsde import gp
    from hpsde.gp import blocked

    z, y = data(n)
    theta = thetas()[0]
    known = gp.Hyperparameters(jnp.asarray(theta[:-2]), jnp.asarray(theta[-2]), jnp.asarray(theta[-1]))
    given = jnp.asarray(z), jnp.asarray(y), jnp.ones(n, dtype=bool)

    def condition() -> Any:
        return jax.block_until_ready(blocked.condition(known, *given).K_inverse).shape

    first = clock(condition)
    return {"seconds": clock(condition), "first": first, "peak_gb": peak_gb()}


def sparse_posterior(n: int) -> dict[str, Any]:
    """One sparse posterior by way of 1,024 points."""
    import jax.numpy as jnp

    from hpsde import gp
    from hpsde.gp.sparse import condition_sparse, looked_at

    z, y = data(n)
    theta = thetas()[0]
    known = gp.Hyperparameters(jnp.asarray(theta[:-2]), jnp.asarray(theta[-2]), jnp.asarray(theta[-1]))
    first = clock(lambda: condition_sparse(known, z, y, 1024, looked_at(y)))
    return {"seconds": clock(lambda: condition_sparse(known, z, y, 1024, looked_at(y))), "first": first}


def mixture(n: int) -> dict[str, Any]:
    """10 iterations of 20 components in 10 dimensions."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    from hpsde.mixture import climb, estimation, forms

    rng = np.random.default_rng(n)
    labels = rng.integers(20, size=n)
    x = 2.0 * rng.normal(size=(20, 10))[labels] + rng.normal(size=(n, 10))
    first = rng.uniform(size=(n, 20)) + np.eye(20)[labels]
    rows = jnp.asarray(x), jnp.ones(n), jnp.asarray(first / first.sum(axis=1, keepdims=True))
    data = rows[0], rows[1], forms.FormedPrior(*estimation.default_prior(rows[0], rows[1], 20))
    form = forms.Form("full", "dirichlet_distribution")

    def run() -> Any:
        first = climb.from_responsibilities(form, *data, rows[2], 1e-6)
        return jax.block_until_ready(list(itertools.islice(climb.climb(form, *data, first, 1e-6), 10)))

    begun = clock(run)
    return {"seconds": min(clock(run) for _ in range(3)), "first": begun, "peak_gb": peak_gb()}


def mixture_sklearn(n: int) -> dict[str, Any]:
    """The same by scikit-learn, on all cores."""
    from sklearn.mixture import BayesianGaussianMixture

    rng = np.random.default_rng(n)
    labels = rng.integers(20, size=n)
    x = 2.0 * rng.normal(size=(20, 10))[labels] + rng.normal(size=(n, 10))
    made = BayesianGaussianMixture(n_components=20, tol=0.0, max_iter=10, init_params="random", random_state=0)
    return {"seconds": clock(lambda: made.fit(x))}


def learner(task: str) -> dict[str, Any]:
    """A first run in this process, and the same again; and a digest of the policy."""
    import hpsde
    from hpsde.tasks import make_task

    seconds, policy = [], None
    for _ in range(2):
        begun = time.perf_counter()
        policy = hpsde.learn(make_task(task), seed=0, progress=False)
        seconds.append(time.perf_counter() - begun)
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy.npz")  # type: ignore[union-attr]
        digest = hashlib.sha256((Path(folder) / "policy.npz").read_bytes()).hexdigest()[:16]
    return {"first": seconds[0], "seconds": seconds[1], "digest": digest}


MEASURED: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each
    for each in (
        gp_fit,
        gp_fit_cpu,
        gp_fit_gpytorch,
        gp_posterior,
        sparse_posterior,
        mixture,
        mixture_sklearn,
        learner,
    )
}


def child(name: str, what: Any, platform: str, limit: float) -> dict[str, Any]:
    """What a process of its own measures; why not, where it does not."""
    environment = os.environ | {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.97",
        "HPSDE_KEEP_COMPILED": "0",
    }
    if platform == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"
    command = [sys.executable, __file__, "--child", name, "--what", str(what)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        return {"failed": lines[-1][:160]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def row(title: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    if "failed" in found:
        return f"| {title} | {found['failed']} | | | |"
    rest = [f"{found[each]:.4g}" if each in found else "" for each in ("first", "peak_gb")]
    said = " ".join(f"{each} {found[each]}" for each in ("value", "digest") if each in found)
    return f"| {title} | {found['seconds']:.3g} | {' | '.join(rest)} | {said} |"


def jobs(parts: list[str], sizes: list[int], tasks: list[str]) -> list[tuple[str, str, Any, str]]:
    """Title, name, argument and platform of every measurement."""
    found: list[tuple[str, str, Any, str]] = []
    for n in sizes if "gp" in parts else []:
        found.append((f"25 likelihoods, n = {n:,}, GPU", "gp_fit", n, "gpu"))
        found.append((f"one posterior, n = {n:,}, GPU", "gp_posterior", n, "gpu"))
        if n <= 20_000:
            found.append((f"25 likelihoods, n = {n:,}, gpytorch on the GPU", "gp_fit_gpytorch", n, "gpu"))
        if n <= 8_000:
            found.append((f"25 likelihoods, n = {n:,}, LAPACK", "gp_fit_cpu", n, "cpu"))
    for n in (20_000, 100_000, 1_000_000) if "sparse" in parts else ():
        found += [
            (f"sparse posterior, n = {n:,}, {each.upper()}", "sparse_posterior", n, each) for each in ("gpu", "cpu")
        ]
    if "mixture" in parts:
        found += [(f"mixture, n = 1e6, {each.upper()}", "mixture", 1_000_000, each) for each in ("gpu", "cpu")]
        found.append(("mixture, n = 1e6, scikit-learn", "mixture_sklearn", 1_000_000, "cpu"))
    if "bits" in parts:
        found += [(f"toy-triple, GPU visible, run {each}", "learner", "toy-triple", "gpu") for each in (1, 2)]
    for task in tasks if "learner" in parts else []:
        found += [
            (f"{task}, {'GPU visible' if each == 'gpu' else 'CPU'}", "learner", task, each) for each in ("gpu", "cpu")
        ]
    return found


def main() -> None:
    """All measurements or, in a process of its own, one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8_000, 20_000, 50_000])
    parser.add_argument("--tasks", nargs="+", default=["toy-triple", "puddle", "reach"])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each measurement")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"add the rows to that file, such as {RESULTS.name}")
    for hidden in ("--child", "--what"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what = given.what if given.child == "learner" else int(given.what)
        print(json.dumps(MEASURED[given.child](what)))
        return
    lines = ["| | s | first, s | most memory, GB | |", "|---|---|---|---|---|"]
    print(*lines, sep="\n", flush=True)
    for title, name, what, platform in jobs(given.parts, given.sizes, given.tasks):
        lines.append(row(title, child(name, what, platform, given.limit)))
        print(lines[-1], flush=True)
        if given.out is not None:
            given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
