"""The claims of the paper, judged from the rows of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.experiments.plan import Claim, Experiment, Pair
from hpsde.experiments.rows import Row, Runs, failures, runs_of, values
from hpsde.experiments.statistics import FAILS, HOLDS, UNDECIDED, Interval, estimate, judge, overall

MARGIN_SHARE = 0.05
"""Returns count as equal within this share of the way from the initial policy's mean return to the best return."""
GIVEN_BY_TASK = ("max_options", "features", "initial_rollouts", "rollouts", "batch")  # batch follows from rollouts
"""What a task may set: the paper's one open parameter; the features, which the paper takes from the task too; and how
many rollouts there are to learn from."""

Settings = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Task -> variant -> setting -> value."""


@dataclass(frozen=True)
class Comparison:
    """The same quantity of a variant, and of another one or a number, on one task; None where there are no runs."""

    task: str
    pair: Pair
    quantity: str
    first: Interval | None
    second: Interval | None
    difference: Interval | None
    failed: int
    margin: float | None
    verdict: str
    decides: bool


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its comparisons and its verdict."""

    claim: Claim
    comparisons: tuple[Comparison, ...]
    verdict: str


def judge_claims(experiment: Experiment, rows: Sequence[Row]) -> list[JudgedClaim]:
    """All claims of the experiment that compare variants."""
    runs = runs_of(rows)
    return [_judge_claim(claim, experiment, runs) for claim in experiment.claims]


def _judge_claim(claim: Claim, experiment: Experiment, runs: Runs) -> JudgedClaim:
    comparisons = [
        compare(runs, experiment, claim, task, pair, quantity, quantity == claim.quantity and pair in claim.pairs)
        for task in experiment.tasks
        for pair in (*claim.pairs, *claim.reported_pairs)
        for quantity in (claim.quantity, *claim.reported_quantities)
    ]
    shown = tuple(each for each in comparisons if each.decides or each.difference is not None)
    return JudgedClaim(claim, shown, overall(each.verdict for each in shown if each.decides))


def compare(
    runs: Runs, experiment: Experiment, claim: Claim, task: str, pair: Pair, quantity: str, decides: bool
) -> Comparison:
    """A pair on one task, seed by seed. Undecided where a run is missing or failed: none is left out silently.

    Quantities that are reported beside the claim's own are judged by its side too, if they are returns.
    """
    variant, other = pair
    first = values(runs, task, variant, quantity)
    second = values(runs, task, other, quantity) if isinstance(other, str) else dict.fromkeys(first, other)
    failed = sum(failures(runs, task, each) for each in pair if isinstance(each, str))
    seeds = sorted(set(first) & set(second))
    difference = estimate(np.array([first[seed] - second[seed] for seed in seeds])) if seeds else None
    margin = margin_of(runs, experiment, task) if claim.side == 0 else None
    complete = difference is not None and not failed and set(first) == set(second)
    judged = decides or quantity.endswith("return")
    verdict = "" if not judged else UNDECIDED
    if judged and complete and difference is not None:
        verdict = judge(difference, claim.side, margin or 0.0)
    return Comparison(
        task, pair, quantity, _estimate(first), _estimate(second), difference, failed, margin, verdict, decides
    )


def _estimate(by_seed: Mapping[int, float]) -> Interval | None:
    return estimate(np.array(list(by_seed.values()))) if by_seed else None


def margin_of(runs: Runs, experiment: Experiment, task: str) -> float:
    """Within how much returns count as equal on the task. The initial policy is known by its rollouts in all runs."""
    if experiment.margin is not None:
        return experiment.margin
    initial = [
        run[0]["batch_mean_return"]
        for (name, _, _), run in runs.items()
        if name == task and run[0].get("batch_mean_return") is not None
    ]
    return MARGIN_SHARE * abs(experiment.best[task] - float(np.mean(initial))) if initial else 0.0


@dataclass(frozen=True)
class OpenParameters:
    """Claim C7: which settings differ between the tasks, for every variant that learns several; and the verdict."""

    differing: dict[str, tuple[str, ...]]
    verdict: str


def judge_open_parameters(settings: Settings, variants: Sequence[str]) -> OpenParameters:
    """Holds if none of the variants has a setting, other than those that a task gives, that differs between tasks."""
    differing: dict[str, tuple[str, ...]] = {}
    for name in sorted({variant for of_task in settings.values() for variant in of_task}):
        first, *others = [of_task[name] for of_task in settings.values() if name in of_task]
        if others:
            differing[name] = tuple(sorted(key for key in first if any(each[key] != first[key] for each in others)))
    judged = [differing[name] for name in variants if name in differing]
    surplus = {setting for each in judged for setting in each} - set(GIVEN_BY_TASK)
    return OpenParameters(differing, FAILS if surplus else HOLDS if judged else UNDECIDED)
