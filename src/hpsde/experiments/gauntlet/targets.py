"""The targets of the gauntlet: which runs each is about, the figure over them, and how much is wanted of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hpsde.experiments.gauntlet.rows import Row

WRONG_REGRET = 0.1
"""A run whose regret is above went wrong, also where all solutions are found."""
FULL_ROLLOUTS = 1050
REACHED, MISSED, UNKNOWN = "yes", "no", "no runs"


@dataclass(frozen=True)
class GauntletTarget:
    """A figure over the runs that are `chosen`, and the least, or the most, that is wanted of it."""

    runs: str
    text: str
    chosen: Callable[[Row], bool]
    figure: Callable[[Sequence[Row]], float]
    wanted: float
    at_most: bool = False

    def judge(self, rows: Iterable[Row]) -> JudgedTarget:
        """The figure of these rows."""
        found = [row for row in rows if self.chosen(row)]
        return JudgedTarget(self, len(found), self.figure(found) if found else float("nan"))


@dataclass(frozen=True)
class JudgedTarget:
    """A target, from how many runs it is judged, and the figure of these."""

    target: GauntletTarget
    runs: int
    figure: float

    @property
    def verdict(self) -> str:
        """Whether it is reached; a figure may fall short by rounding alone."""
        if math.isnan(self.figure):
            return UNKNOWN
        lacking = self.figure - self.target.wanted if self.target.at_most else self.target.wanted - self.figure
        return REACHED if lacking <= 1e-9 else MISSED


def regret(row: Row) -> float:
    """The regret of a run: infinite after an error, NaN where nothing can be lost."""
    if row["error"]:
        return math.inf
    return math.nan if row["regret"] is None else row["regret"]


def went_wrong(row: Row) -> bool:
    """Whether a solution is missing or the regret is above 10 %; what cannot be solved counts as wrong."""
    return row["hopeless"] or row["coverage"] != 1.0 or regret(row) > WRONG_REGRET


def exact_share(rows: Sequence[Row]) -> float:
    """The share of the runs with one option for each solution and no other."""
    return float(np.mean([bool(row["exact"]) for row in rows]))


def found_share(rows: Sequence[Row]) -> float:
    """The share of the runs in which every solution is found."""
    return float(np.mean([row["coverage"] == 1.0 for row in rows]))


def mean_coverage(rows: Sequence[Row]) -> float:
    """The share of the solutions that is found, as the mean over the runs; NaN where there are no solutions."""
    known = [row["coverage"] for row in rows if row["coverage"] is not None]
    return float(np.mean(known)) if known else math.nan


def doubtful_share(rows: Sequence[Row]) -> float:
    """The share of the runs whose policy has a doubt."""
    return float(np.mean([bool(row["doubts"]) for row in rows]))


def regret_share(most: float) -> Callable[[Sequence[Row]], float]:
    """The share of the runs with a regret of at most `most`."""
    return lambda rows: float(np.mean([regret(row) <= most for row in rows]))


def median_measure(name: str) -> Callable[[Sequence[Row]], float]:
    """The median of a measure over the runs; a run without it, which ended with an error, counts as 0."""
    return lambda rows: float(np.median([row["measures"].get(name, 0.0) for row in rows]))


def worst_measure(name: str) -> Callable[[Sequence[Row]], float]:
    """The least of a measure over the runs; a run without it, which ended with an error, counts as 0."""
    return lambda rows: min(row["measures"].get(name, 0.0) for row in rows)


def _hopeful(chosen: Callable[[Row], bool]) -> Callable[[Row], bool]:
    return lambda row: not row["hopeless"] and chosen(row)


def _plain(row: Row) -> bool:
    """Ridges and bumps: up to nine solutions, four numbers, all rollouts. What is not known is taken to be so."""
    numbers = (row["context_size"] or 0) + (row["parameter_size"] or 0)
    rollouts = row["rollouts"] is None or row["rollouts"] >= FULL_ROLLOUTS
    return row["family"] in ("ridges", "bumps") and (row["solutions"] or 0) <= 9 and numbers <= 4 and rollouts


def _hard(row: Row) -> bool:
    return row["family"] == "hard"


def _budget(rollouts: int) -> Callable[[Row], bool]:
    return lambda row: row["family"] == "budgets" and row["cell"].endswith(f"-at-{rollouts}")


def _many(*beginnings: str) -> Callable[[Row], bool]:
    return lambda row: row["family"] == "many" and row["cell"].startswith(beginnings)


def _movement(kind: str) -> Callable[[Row], bool]:
    return lambda row: row["family"] == "movements" and row["cell"].startswith(kind)


PLAIN, HARD, WALLS, ARMS = (
    "ridges and bumps, up to 9 solutions",
    "hard returns",
    "walls",
    "arms",
)
TEN, MORE = "10 parameters", "20 and 30 parameters, three directions"

TARGETS = (
    GauntletTarget(PLAIN, "exact", _hopeful(_plain), exact_share, 0.98),
    GauntletTarget(PLAIN, "regret at most 1 %", _hopeful(_plain), regret_share(0.01), 0.99),
    GauntletTarget(HARD, "exact", _hopeful(_hard), exact_share, 0.93),
    GauntletTarget(HARD, "regret at most 3 %", _hopeful(_hard), regret_share(0.03), 0.97),
    GauntletTarget("300 rollouts", "exact", _hopeful(_budget(300)), exact_share, 0.93),
    GauntletTarget("100 rollouts", "exact", _hopeful(_budget(100)), exact_share, 0.85),
    GauntletTarget("60 rollouts", "exact", _hopeful(_budget(60)), exact_share, 0.70),
    GauntletTarget(TEN, "exact", _hopeful(_many("many-10-")), exact_share, 0.98),
    GauntletTarget(TEN, "regret at most 1 %", _hopeful(_many("many-10-")), regret_share(0.01), 0.99),
    GauntletTarget(MORE, "mean coverage", _hopeful(_many("many-20-three", "many-30-three")), mean_coverage, 0.8),
    GauntletTarget(
        MORE, "regret at most 5 %", _hopeful(_many("many-20-three", "many-30-three")), regret_share(0.05), 0.8
    ),
    GauntletTarget(WALLS, "all gaps found", _hopeful(_movement("wall")), found_share, 0.9),
    GauntletTarget(
        WALLS, "collision-free, median", _hopeful(_movement("wall")), median_measure("collision_free"), 0.99
    ),
    GauntletTarget(
        WALLS, "collision-free, worst run", _hopeful(_movement("wall")), worst_measure("collision_free"), 0.95
    ),
    GauntletTarget(ARMS, "both sides found", _hopeful(_movement("arm")), found_share, 0.85),
    GauntletTarget(ARMS, "success, median", _hopeful(_movement("arm")), median_measure("success"), 0.97),
    GauntletTarget("runs that went wrong", "with a doubt", went_wrong, doubtful_share, 0.9),
    GauntletTarget(
        "runs that went right", "with a doubt", lambda row: not went_wrong(row), doubtful_share, 0.1, at_most=True
    ),
)


def judge_all(rows: Sequence[Row]) -> list[JudgedTarget]:
    """All targets, judged from these rows."""
    return [target.judge(rows) for target in TARGETS]
