"""The rover at several budgets: the best three routes that differ, by hpsde in two ways, by CMA-ES and by chance.

    python benchmarks/rover.py [--budgets 1000 2000 3000 5000 10000] [--seeds 3] [--first-seed 0] [--methods hpsde ...]

A budget counts every evaluation of the return, the first, exploring ones included. Two routes differ if their one-way
distance is 0.15 or more, as in ROBOT. No method here is told that three routes are wanted, or which differ.

  best             the best return of all evaluations
  best_three       mean of the best three evaluations that differ, chosen greedily; nan: there are no three
  best_three_means the same among the mean routes of hpsde's options
  ways             different ways through the streets (docs/tasks.md) that some evaluation earns 4 or more on
  options, doubts  of hpsde's policy

Methods: hpsde, as the task asks for it (density="regions", with options on evaluated routes); landscape, hpsde with its
defaults (density="options", 600 first rollouts; as many evaluations are kept as there may be options, to try their mean
routes at last); cma, CMA-ES started three times with a third of the budget each (needs cma); random, the first,
exploring parameters alone. Writes benchmarks/results/rover.csv, a line for each run as soon as it is done; the lines of
other runs stay.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import csv
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import hpsde
from hpsde.learning import budget as budget_of
from hpsde.learning import iterate
from hpsde.methods import DEFAULT_METHOD, make_learner
from hpsde.tasks import task_extras
from hpsde.tasks.rover import DIVERSE, SOLVED, Rover
from hpsde.tasks.streets import OTHER, best_diverse

TASK = Rover()
RESTARTS = 3
FIRST = 600
"""First rollouts of the search in the modelled return."""
SPREAD = 0.25
"""The first standard deviation of CMA-ES, in ranges of the parameters."""


def evaluated(parameters: np.ndarray) -> np.ndarray:
    """The returns [N] of parameters [N, 60]."""
    return TASK.evaluate(np.zeros((len(parameters), 0)), parameters)


def best_three(parameters: np.ndarray, returns: np.ndarray) -> float:
    """Mean return of the best three that differ."""
    routes = TASK.routes(np.zeros((len(parameters), 0)), parameters)
    chosen = best_diverse(returns, routes, 3, DIVERSE)
    return float(np.mean(returns[chosen])) if len(chosen) == 3 else float("nan")


def ways(parameters: np.ndarray, returns: np.ndarray) -> int:
    """How many ways are solved by some of these parameters."""
    solved = parameters[returns >= SOLVED]
    return len(set(TASK.names(np.zeros((len(solved), 0)), solved)) - {OTHER})


def run_hpsde(budget: int, seed: int) -> dict[str, Any]:
    """As the task asks for it; options stand on routes that were evaluated."""
    return _learned(budget, seed, {})


def run_landscape(budget: int, seed: int) -> dict[str, Any]:
    """The defaults; the last evaluations are those of the options' means."""
    found = _learned(budget - TASK.max_options, seed, {"density": "options", "initial_rollouts": FIRST})
    means = found.pop("means")
    parameters = np.concatenate([found["parameters"], means])
    return found | {"parameters": parameters, "returns": np.concatenate([found["returns"], evaluated(means)])}


def _learned(rollouts: int, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    first, _ = budget_of(task_extras(TASK), None, rollouts)
    given = {"initial_rollouts": first, "expected_rollouts": rollouts} | settings
    learner = make_learner(DEFAULT_METHOD, TASK, seed=seed, **given)
    for _ in iterate(TASK, learner, rollouts=rollouts):
        pass
    policy: hpsde.HierarchicalPolicy = learner.policy
    means = policy.option_means(np.zeros((1, 0)))[:, 0]
    return {
        "parameters": learner.rollouts.parameters,
        "returns": learner.rollouts.returns,
        "means": means,
        "best_three_means": best_three(means, evaluated(means)),
        "options": len(means),
        "doubts": " ".join(doubt.kind for doubt in policy.doubts),
    }


def run_cma(budget: int, seed: int) -> dict[str, Any]:
    """CMA-ES within the bounds, from three random starts."""
    import cma

    low, high = TASK.parameter_bounds
    tried, found = [], []
    for restart in range(RESTARTS):
        share = budget // RESTARTS
        start = np.random.default_rng([seed, restart]).uniform(0.0, 1.0, TASK.parameter_size)
        settings = {"bounds": [0.0, 1.0], "seed": 1 + RESTARTS * seed + restart, "verbose": -9}
        search = cma.CMAEvolutionStrategy(start, SPREAD, settings)
        while share > 0:
            asked = np.array(search.ask())
            parameters = low + (high - low) * asked
            returns = evaluated(parameters)
            search.tell(asked, -returns)
            tried.append(parameters[:share])
            found.append(returns[:share])
            share -= len(asked)
    return {"parameters": np.concatenate(tried), "returns": np.concatenate(found)}


def run_random(budget: int, seed: int) -> dict[str, Any]:
    """The first, exploring parameters alone."""
    parameters = TASK.sample_initial(jax.random.key(seed), np.zeros((budget, 0)))
    return {"parameters": parameters, "returns": evaluated(parameters)}


METHODS = {"hpsde": run_hpsde, "landscape": run_landscape, "cma": run_cma, "random": run_random}
FIELDS = (
    *("method", "budget", "seed", "evaluations", "best", "best_three", "best_three_means"),
    *("ways", "options", "doubts", "seconds"),
)


def row(method: str, budget: int, seed: int) -> dict[str, Any]:
    """A run and what it gave."""
    begin = time.perf_counter()
    result = METHODS[method](budget, seed)
    seconds = time.perf_counter() - begin
    parameters, returns = result.pop("parameters"), result.pop("returns")
    result.pop("means", None)
    return {
        "method": method,
        "budget": budget,
        "seed": seed,
        "evaluations": len(returns),
        "best": float(returns.max()),
        "best_three": best_three(parameters, returns),
        "ways": ways(parameters, returns),
        "seconds": seconds,
    } | result


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """A row with its numbers to four digits."""
    return {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in line.items()}


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all methods, budgets and seeds, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=int, nargs="+", default=[1000, 2000, 3000, 5000, 10_000])
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the lowest seed")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "rover.csv")
    given = parser.parse_args(arguments)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    asked = set(itertools.product(given.methods, given.budgets, seeds))
    before = [each for each in read(given.out) if (each["method"], int(each["budget"]), int(each["seed"])) not in asked]
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(before)
        file.flush()
        for method, budget, seed in sorted(asked, key=lambda run: (list(METHODS).index(run[0]), *run[1:])):
            line = shown(row(method, budget, seed))
            writer.writerow(line)
            file.flush()
            print("  ".join(f"{name} {line[name]}" for name in FIELDS if name in line), flush=True)


if __name__ == "__main__":
    main()
