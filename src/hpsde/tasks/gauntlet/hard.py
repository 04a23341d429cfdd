"""Hard returns: two or three random lines, seen through noise, outliers, failures, rounding or odd units.

The lines are those of ridges-3, or ridges-2 where a rollout only succeeds or fails, of the same seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.later import Later
from hpsde.tasks.gauntlet.known import Cell, KnownTask, generator, known_task, uniforms
from hpsde.tasks.gauntlet.peaks import Peak, bell, peak_cell, peak_task
from hpsde.tasks.gauntlet.ridges import lines
from hpsde.tasks.solutions import Solution

special = Later("scipy.special")


__all__ = ["CELLS"]

OUTLIERS, OUTLIER_SIZE = 0.02, 10.0
FAILURES = 0.2
OBSTACLE_TOLERANCE = 0.05
CONTEXT_UNIT, PARAMETER_UNIT, RETURN_UNIT = (0.3, 1e-3), (-7e5, 1e4), (-3e7, 1e5)
"""Offset and scale of what the task "units" gives and takes."""

Observe = Callable[[np.ndarray, np.ndarray], np.ndarray]


def gaussian_noise(name: str, deviation: float) -> Observe:
    """R + deviation e, e ~ N(0, 1)."""
    return lambda returns, seeds: returns + deviation * special.ndtri(uniforms(name, seeds, 1)[:, 0])


def student_noise(name: str, scale: float) -> Observe:
    """R + scale t, t from Student's distribution with 2 degrees of freedom: its variance is infinite."""
    return lambda returns, seeds: returns + scale * special.stdtrit(2.0, uniforms(name, seeds, 1)[:, 0])


def outliers(name: str, up: float) -> Observe:
    """In 2 % of the rollouts, R is off by ten ranges: upwards with probability `up`, else downwards."""

    def observe(returns: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        hit, side = uniforms(name, seeds, 2).T
        return returns + np.where(hit < OUTLIERS, np.where(side < up, OUTLIER_SIZE, -OUTLIER_SIZE), 0.0)

    return observe


def successes(name: str) -> Observe:
    """1 with the probability R, else 0."""
    return lambda returns, seeds: (uniforms(name, seeds, 1)[:, 0] < returns).astype(float)


def failures(name: str) -> Observe:
    """NaN in 20 % of the rollouts."""
    return lambda returns, seeds: np.where(uniforms(name, seeds, 1)[:, 0] < FAILURES, np.nan, returns)


def bands(share: float, rng: np.random.Generator) -> list[Peak]:
    """Two lines with a band round each; both bands together are `share` of the range of the parameter."""
    half = 0.25 * share
    return [replace(peak, scale=np.eye(1) / half) for peak in lines(2, rng)]


def in_band(z: np.ndarray) -> np.ndarray:
    """1 in the band, 0 outside."""
    return (z <= 1.0).astype(float)


def in_noisy_band(z: np.ndarray) -> np.ndarray:
    """The probability of success: 0.9 in the band, 0.02 outside."""
    return np.where(z <= 1.0, 0.9, 0.02)


def rounded(z: np.ndarray) -> np.ndarray:
    """Whole numbers from 5 to 0: round(5 exp(-z^2 / 2))."""
    return np.round(5.0 * bell(z))


def stairs(z: np.ndarray) -> np.ndarray:
    """Three steps down from 1 to 0: 1 in the band, 2/3 in the one round it that is as wide again, and so on."""
    return np.clip(4.0 - np.ceil(z), 0.0, 3.0) / 3.0


def bonus(z: np.ndarray) -> np.ndarray:
    """A gentle slope towards the line, and a bonus of 0.7 in the band: 0.3 / (1 + z) + 0.7 [z <= 1]."""
    return 0.3 / (1.0 + z) + 0.7 * in_band(z)


def obstacle(description: str, seed: int) -> KnownTask:
    """R = -4 (xi - c(s))^2, and 1 less in an obstacle |xi - c(s)| < w: the best is to pass it on either side.

    Without the obstacle the line c would be best. It is that of rollouts that hit nothing, and nowhere to be.
    """
    rng = generator("obstacle-2", seed)
    ends, half = rng.uniform(0.4, 0.6, 2), rng.uniform(0.1, 0.15)

    def line(contexts: np.ndarray) -> np.ndarray:
        return ends.mean() + 0.5 * (ends[1] - ends[0]) * contexts

    def returns(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        away = np.abs(parameters - line(contexts))[:, 0]
        return -4.0 * away**2 - (away < half)

    def passed(name: str, side: float) -> Solution:
        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            away = side * (parameters - line(contexts))[:, 0]
            return (away >= half) & (away <= half + OBSTACLE_TOLERANCE)

        return Solution(name, follows, parameters=lambda s: line(s) + side * half * (1.0 + 1e-12))

    return known_task(
        f"obstacle-2@{seed}",
        returns,
        lambda contexts: np.full(len(contexts), -4.0 * half**2),
        contexts=Uniform(-1.0, 1.0),
        initial=Uniform(0.0, 1.0),
        solutions=(passed("below", -1.0), passed("above", 1.0)),
        description=description,
    )


def units(description: str, seed: int) -> KnownTask:
    """Three lines where contexts, parameters and returns are in units far from 1 with offsets far from 0."""
    plain = peak_task(f"units@{seed}", lines(3, generator("ridges-3", seed)), context_size=1)
    (s0, s1), (p0, p1), (r0, r1) = CONTEXT_UNIT, PARAMETER_UNIT, RETURN_UNIT
    return known_task(
        plain.name,
        lambda s, xi: r0 + r1 * plain.true_returns((s - s0) / s1, (xi - p0) / p1),
        lambda s: r0 + r1 * plain.best_returns((s - s0) / s1),
        contexts=Uniform(s0 - s1, s0 + s1),
        initial=Uniform(p0, p0 + p1),
        solutions=tuple(map(_in_units, plain.solutions)),
        description=description,
    )


def _in_units(solution: Solution) -> Solution:
    (s0, s1), (p0, p1) = CONTEXT_UNIT, PARAMETER_UNIT
    curve = solution.parameters
    return replace(
        solution,
        follows=lambda s, xi: solution.follows((s - s0) / s1, (xi - p0) / p1),
        parameters=None if curve is None else lambda s: p0 + p1 * curve((s - s0) / s1),
    )


def nothing(name: str, description: str, seed: int) -> KnownTask:
    """Returns that are noise, whatever the parameters: there is nothing to find."""
    return known_task(
        f"{name}@{seed}",
        lambda contexts, parameters: np.zeros(len(parameters)),
        lambda contexts: np.zeros(len(contexts)),
        contexts=Uniform(-1.0, 1.0),
        initial=Uniform(0.0, 1.0),
        observe=gaussian_noise(f"{name}@{seed}", 1.0),
        description=description,
    )


def _three(name: str, description: str, observe: Observe | None = None, **extras: Any) -> Cell:
    fixed: dict[str, Any] = {"geometry": "ridges-3", "context_size": 1, "observe": observe}
    return peak_cell(name, "hard", f"3 lines, {description}", partial(lines, 3), **fixed, **extras)


def _two(name: str, description: str, share: float, **extras: Any) -> Cell:
    draw = partial(bands, share)
    return peak_cell(name, "hard", f"2 bands, {description}", draw, geometry="ridges-2", context_size=1, **extras)


def _made(name: str, description: str, make: Callable[[int], KnownTask], hopeless: bool = False) -> Cell:
    return Cell(name, "hard", make, description, hopeless)


_UNITS = "3 lines, contexts, parameters and returns in odd units"
_OBSTACLE = "a smooth cost with an obstacle where it would be best, to be passed on either side"
_NOTHING = "nothing but noise: there is no solution"

CELLS = {
    cell.name: cell
    for cell in (
        *(
            _three(f"noise-{k}", f"noise of {k} % of the range", gaussian_noise(f"noise-{k}", 0.01 * k))
            for k in (1, 10, 30, 50)
        ),
        _three("heavy-tails", "noise with 2 degrees of freedom", student_noise("heavy-tails", 0.05)),
        _three("outliers-up", "2 % of the returns too high by ten ranges", outliers("outliers-up", 1.0)),
        _three("outliers-down", "2 % of the returns too low by ten ranges", outliers("outliers-down", 0.0)),
        _three("outliers-both", "2 % of the returns off by ten ranges", outliers("outliers-both", 0.5)),
        *(
            _two(f"binary-{k}", f"success or failure, {k} % succeed at first", 0.01 * k, profile=in_band)
            for k in (30, 10, 4)
        ),
        _two(
            "binary-noisy-10",
            "success of probability 0.9 in them and 0.02 outside",
            0.1,
            profile=in_noisy_band,
            observe=successes("binary-noisy-10"),
        ),
        _two("stairs-2", "four different returns, 30 % of the first are the highest", 0.3, profile=stairs),
        _two("bonus-2", "a bonus in them, 10 % of the range, on a gentle slope", 0.1, profile=bonus),
        _made("obstacle-2", _OBSTACLE, partial(obstacle, _OBSTACLE)),
        _three("integers", "returns rounded to 0 .. 5", profile=rounded),
        _three("failures", "20 % of the rollouts fail", failures("failures")),
        _made("units", _UNITS, partial(units, _UNITS)),
        _made("constant-noise", _NOTHING, partial(nothing, "constant-noise", _NOTHING), hopeless=True),
    )
}
