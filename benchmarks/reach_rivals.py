"""The arm's postures: learned once for all goals, or searched for anew at every goal, with as many evaluated returns.

    python benchmarks/reach_rivals.py [--seeds 3] [--goals 25] [--rivals nelder-mead powell ...] [--quick]

What a user would do instead of learning: for one goal after the other, restart a search without gradients from draws
of the task's own start policy until a success on either side of the pole is found. A search ends at its first success,
and whether a posture is a success the rivals are told for free: returns alone are counted. "warm" rivals start from
what they found at the nearest earlier goal, and draw only when that fails. Goals are drawn as those of the learner.
Steps and tolerances are those that served the rivals best of a few tried. CMA-ES is that of pycma (`pip install cma`).

The table has medians over seeds of:
  evaluations    until both sides are known: a rival's at one goal (the median over its goals, at most as many as the
                 learner has for all of them); the learner's at 80 % of the 125 evaluation goals
  per goal       the same; the learner's over 125
  first, both    after as many evaluations as the learner has, the share of the evaluation goals, on which nobody has
                 worked, that succeed without another one: by what the gate chooses, by options on both sides. A rival
                 takes what it found at the nearest goal it has worked on, the first or both
  s per query    seconds for a new goal: a rival's whole search, the learner's `act`

Writes one row for every method and seed to benchmarks/results/reach_rivals.csv (with --quick only where --out says).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import csv
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.optimize

from hpsde.learning import iterate
from hpsde.methods import make_learner
from hpsde.tasks import make_task

TASK = make_task("reach")
GOALS = np.asarray(TASK.evaluation_contexts())
SIDES = (1.0, -1.0)
SHARE = 0.8
INITIAL, ROLLOUTS, BATCH = 500, 4000, 100
MOST_GOALS = 1000
WIDTH, WARM_WIDTH = 0.5, 0.1  # radians: the first simplex or deviation around a drawn start, and around a known posture
HOPELESS = -0.6  # no success has a return below this: 21 spheres that all just do not touch cost 0.525


class SearchOver(Exception):  # noqa: N818 - not an error
    """Leaves a search from within its objective: something was found, or all was spent."""


@dataclass
class Search:
    """The returns at one goal, counted, and the successes among them.

    found: side -> the first angles [J] that succeed there, and how many returns had been evaluated by then.
    """

    goal: np.ndarray
    budget: int
    found: dict[float, tuple[np.ndarray, int]] = field(default_factory=dict)
    count: int = 0

    def evaluate(self, q: np.ndarray) -> np.ndarray:
        """Returns [N] of q [N, J]; leaves the search at the first success, and when the budget is spent."""
        q = q[: self.budget - self.count]
        goals = np.repeat(self.goal[None], len(q), axis=0)
        returns = TASK.evaluate(goals, q)
        before, self.count = self.count, self.count + len(q)
        if np.any(returns > HOPELESS):
            measures = TASK.measures(goals, q)
            for row in np.flatnonzero(measures["success"])[:1]:
                self.count = before + int(row) + 1
                self.found.setdefault(float(measures["side"][row]), (q[row].copy(), self.count))
                raise SearchOver
        if self.count >= self.budget:
            raise SearchOver
        return returns

    def cost(self, q: np.ndarray) -> float:
        """Minus the return of one q [J]."""
        return -float(self.evaluate(np.asarray(q)[None])[0])

    @property
    def until_both(self) -> float:
        """Evaluations until both sides were found; infinite where one was not."""
        return max(at for _, at in self.found.values()) if len(self.found) == len(SIDES) else np.inf


def by_nelder_mead(search: Search, start: np.ndarray, width: float, seed: int) -> None:
    """One search by scipy's Nelder-Mead; the first simplex it would make itself is far too small."""
    simplex = np.vstack([start, start + width * np.eye(len(start))])
    options = {"initial_simplex": simplex, "xatol": 1e-2, "fatol": 1e-3}
    scipy.optimize.minimize(search.cost, start, method="Nelder-Mead", options=options)


def by_powell(search: Search, start: np.ndarray, width: float, seed: int) -> None:
    """One search by scipy's Powell, which finds its own steps."""
    scipy.optimize.minimize(search.cost, start, method="Powell", options={"xtol": 1e-2, "ftol": 1e-3})


def by_cma(search: Search, start: np.ndarray, width: float, seed: int) -> None:
    """One search by pycma's CMA-ES."""
    import cma

    settings = {"seed": 1 + seed, "verbose": -9, "tolfun": 1e-3}
    strategy = cma.CMAEvolutionStrategy(start, width, settings)
    while not strategy.stop():
        asked = strategy.ask()
        strategy.tell(asked, (-search.evaluate(np.array(asked))).tolist())


METHODS = {"nelder-mead": by_nelder_mead, "powell": by_powell, "cma-es": by_cma}
RIVALS = [*METHODS, *(f"{name}-warm" for name in METHODS)]


def solve(rival: str, goal: np.ndarray, budget: int, key: Any, earlier: list[Search]) -> Search:
    """Restart the rival at one goal until both sides are found or the budget is spent."""
    search, restart = Search(goal, budget), 0
    known = [one for one in earlier if one.found] if rival.endswith("-warm") else []
    starts = [q for q, _ in nearest(known, goal).found.values()] if known else []
    while len(search.found) < len(SIDES) and search.count < budget:
        width = WARM_WIDTH if starts else WIDTH
        start = starts.pop(0) if starts else TASK.sample_initial(jax.random.fold_in(key, restart), goal[None])[0]
        with suppress(SearchOver):
            METHODS[rival.removesuffix("-warm")](search, start, width, restart)
        restart += 1
    return search


def nearest(searches: list[Search], goal: np.ndarray) -> Search:
    """The search at the goal nearest to this one."""
    return min(searches, key=lambda search: float(np.linalg.norm(search.goal - goal)))


def run_rival(rival: str, seed: int, goals: int, budget: int) -> dict[str, Any]:
    """Solve goal after goal: at least so many, and until as much is spent as the learner has."""
    key = jax.random.fold_in(jax.random.key(seed), 1)
    contexts = np.asarray(TASK.sample_contexts(jax.random.key(seed), MOST_GOALS))
    searches: list[Search] = []
    spent, seconds = [0], []
    for number, goal in enumerate(contexts):
        if number >= goals and spent[-1] >= budget:
            break
        begin = time.perf_counter()
        searches.append(solve(rival, goal, budget, jax.random.fold_in(key, number), searches))
        seconds.append(time.perf_counter() - begin)
        spent.append(spent[-1] + searches[-1].count)
    in_time = []
    for search, (before, _) in zip(searches, pairwise(spent), strict=True):
        found = {side: (q, at) for side, (q, at) in search.found.items() if before + at <= budget}
        in_time += [Search(search.goal, budget, found)] if found else []
    return {
        "evaluations": float(np.median([search.until_both for search in searches])),
        "goals_known": sum(len(search.found) == len(SIDES) for search in in_time),
        **unseen(*reused(in_time)),
        "query_seconds": float(np.median(seconds)),
        "learner_seconds": None,
    }


def reused(searches: list[Search]) -> tuple[np.ndarray, np.ndarray]:
    """At the evaluation goals, the angles found at the nearest goal: on either side [2, C, J], and first [C, J]."""
    known = np.full((len(SIDES), len(GOALS), TASK.parameter_size), np.nan)
    first = np.full(known.shape[1:], np.nan)
    for c, goal in enumerate(GOALS if searches else ()):
        found = nearest(searches, goal).found
        first[c] = next(iter(found.values()))[0]
        for s, side in enumerate(SIDES):
            if side in found:
                known[s, c] = found[side][0]
    return known, first


def unseen(known: np.ndarray, first: np.ndarray) -> dict[str, float]:
    """The shares of evaluation goals where `first` [C, J] succeeds, and where `known` [K, C, J] does on both sides."""
    sides = np.stack([success_sides(q) for q in known])
    both = np.all([np.any(sides == side, axis=0) for side in SIDES], axis=0)
    return {"unseen_first": float(np.mean(success_sides(first) != 0.0)), "unseen_both": float(np.mean(both))}


def success_sides(q: np.ndarray) -> np.ndarray:
    """The side on which each q [C, J] succeeds at its evaluation goal; 0 where it does not, or is NaN: [C]."""
    given = np.isfinite(q).all(axis=1)
    measures = TASK.measures(GOALS, np.where(given[:, None], q, 0.0))
    return np.where(given & measures["success"], measures["side"], 0.0)


def run_learner(seed: int, initial: int, rollouts: int) -> dict[str, Any]:
    """Learn the task; when both sides were known at 80 % of the evaluation goals, and what is known in the end."""
    learner = make_learner("hpsde-reps-gp", TASK, seed=seed, initial_rollouts=initial, expected_rollouts=rollouts)
    until, known, learner_seconds = np.inf, {"unseen_both": 0.0}, 0.0
    for each in iterate(TASK, learner, rollouts=rollouts, batch=BATCH):
        known = unseen(learner.policy.option_means(GOALS), learner.policy.act(GOALS))
        until = min(until, each.rollouts if known["unseen_both"] >= SHARE else np.inf)
        learner_seconds = each.learner_seconds
    seconds = []
    for goal in GOALS:
        begin = time.perf_counter()
        learner.policy.act(goal)
        seconds.append(time.perf_counter() - begin)
    return {
        "evaluations": until,
        "goals_known": round(known["unseen_both"] * len(GOALS)),
        **known,
        "query_seconds": float(np.median(seconds)),
        "learner_seconds": learner_seconds,
    }


def report(rows: list[dict[str, Any]], budget: int) -> None:
    """The table, and the rivals in proportion to the learner."""
    columns = ("evaluations", "goals_known", "unseen_first", "unseen_both", "query_seconds")
    medians = {
        name: {column: float(np.median([row[column] for row in rows if row["method"] == name])) for column in columns}
        for name in dict.fromkeys(row["method"] for row in rows)
    }
    print(f"\nseeds: {len(rows) // len(medians)}; evaluations for each method and seed: {budget}")
    print(f"{'':16s} evaluations   per goal  goals known   first   both  s per query")
    for name, row in medians.items():
        per_goal = row["evaluations"] / (len(GOALS) if name == "hpsde" else 1)
        cells = (_count(row["evaluations"], budget), _count(per_goal, budget), f"{row['goals_known']:.0f}")
        print(f"{name:16s} {cells[0]:>11s} {cells[1]:>10s} {cells[2]:>12s} ", end="")
        print(f"{row['unseen_first']:7.0%} {row['unseen_both']:6.0%} {row['query_seconds']:12.2g}")
    ours = medians.pop("hpsde")
    for name, row in medians.items():
        slower = row["query_seconds"] / ours["query_seconds"]
        print(f"{name}: takes {slower:,.0f} times as long for a new goal; evaluations of all learning:", end=" ")
        if np.isfinite(ours["evaluations"]) and np.isfinite(row["evaluations"]):
            print(f"those of {ours['evaluations'] / row['evaluations']:.1f} goals")
        else:
            print("not comparable, as one of the two found too little")


def _count(value: float, budget: int) -> str:
    return f"{value:.1f}".removesuffix(".0") if np.isfinite(value) else f"> {budget}"


def main() -> None:
    """Run the rivals and the learner over the seeds, print the table, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="the lowest seed")
    parser.add_argument("--goals", type=int, default=25, help="the fewest goals that a rival works on")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=RIVALS)
    parser.add_argument("--quick", action="store_true", help="one seed, 3 goals, 600 evaluations: does it work?")
    parser.add_argument("--out", type=Path, help="the table of rows")
    arguments = parser.parse_args()
    seeds, goals, initial, budget = arguments.seeds, arguments.goals, INITIAL, ROLLOUTS
    if arguments.quick:
        seeds, goals, initial, budget = 1, 3, 450, 600
    if any(rival.startswith("cma") for rival in arguments.rivals):
        try:
            import cma  # noqa: F401
        except ImportError:
            sys.exit("CMA-ES needs pycma: pip install cma; or name --rivals without it")
    rows: list[dict[str, Any]] = []
    for seed in range(arguments.first_seed, arguments.first_seed + seeds):
        runs: dict[str, Callable[[], dict[str, Any]]] = {
            name: lambda name=name, seed=seed: run_rival(name, seed, goals, budget) for name in arguments.rivals
        }
        runs["hpsde"] = lambda seed=seed: run_learner(seed, initial, budget)
        for name, run in runs.items():
            begin = time.perf_counter()
            rows.append({"method": name, "seed": seed} | run())
            print(f"{name} seed {seed}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    report(rows, budget)
    out = arguments.out or (None if arguments.quick else Path(__file__).parent / "results" / "reach_rivals.csv")
    if out is not None:
        with open(out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
