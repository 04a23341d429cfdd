"""Time and peak memory of the Gaussian process against the number of points n, up to 8,000.

    python benchmarks/gp_scaling.py [--sizes 500 1000 2000 4000 8000] [--out FILE]

Each n runs in a process of its own, so that the peak memory is its own: one likelihood with gradient, the
posterior (by JAX and by LAPACK), and the moments of 10 options x 200 contexts, in 8 dimensions. Compiling is
timed apart. Writes a CSV, in which rows of other sizes are kept.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hpsde.base.precision import double_precision
from hpsde.gp import Hyperparameters, condition, condition_by_lapack, option_moments
from hpsde.gp.lapack import lapack_likelihood

DIMENSIONS, OPTIONS, CONTEXTS = 8, 10, 200


def seconds(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """The result of a call and the wall seconds it took."""
    begin = time.perf_counter()
    return jax.block_until_ready(function(*args)), time.perf_counter() - begin


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """A jitted function compiled for the arguments, and the seconds that took."""
    begin = time.perf_counter()
    return function.lower(*args).compile(), time.perf_counter() - begin


@double_precision
def measure(n: int) -> dict[str, float]:
    """One row of the table."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-2.0, 2.0, size=(n, DIMENSIONS))
    y = np.sin(2.0 * z[:, 0]) + 0.1 * rng.normal(size=n)
    D = DIMENSIONS - 1
    query = jax.device_put(
        (
            rng.uniform(-2.0, 2.0, size=(OPTIONS, CONTEXTS, D)),
            np.tile(0.1 * np.eye(D), (OPTIONS, 1, 1)),
            rng.uniform(-2.0, 2.0, size=(CONTEXTS, 1)),
        )
    )
    theta = np.log([1.0] * DIMENSIONS + [1.0, 0.2])
    _, likelihood_seconds = seconds(lapack_likelihood(z, y), theta)
    data = jax.device_put((Hyperparameters(theta[:-2], theta[-2], theta[-1]), z, y, np.ones(n, bool), 0.0))
    conditioning, first_compilation = compiled(condition, *data)
    gp, condition_seconds = seconds(conditioning, *data)
    _, lapack_seconds = seconds(condition_by_lapack, data[0], z, y, np.ones(n, bool))
    asking, second_compilation = compiled(option_moments, gp, *query)
    _, moments_seconds = seconds(asking, gp, *query)
    return {
        "n": n,
        "likelihood_s": round(likelihood_seconds, 3),
        "condition_s": round(condition_seconds, 3),
        "by_lapack_s": round(lapack_seconds, 3),
        "moments_s": round(moments_seconds, 3),
        "compilation_s": round(first_compilation + second_compilation, 2),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put the rows into the CSV in order of n, keeping rows of other n that are there."""
    kept: list[dict[str, Any]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if int(row["n"]) not in {row["n"] for row in rows}]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*kept, *rows], key=lambda row: int(row["n"])))


def main() -> None:
    """Measure all sizes, print a table, write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000, 8000])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gp_scaling.csv")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(arguments.one)))
        return
    rows = []
    for n in arguments.sizes:
        child = [sys.executable, __file__, "--one", str(n)]
        rows.append(json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout))
        if len(rows) == 1:
            print(" ".join(f"{name:>15s}" for name in rows[0]))
        print(" ".join(f"{value:15g}" for value in rows[-1].values()), flush=True)
    write(arguments.out, rows)


if __name__ == "__main__":
    main()
