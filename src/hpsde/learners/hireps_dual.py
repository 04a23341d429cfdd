"""The dual problem of HiREPS (Daniel, Neumann, Kroemer and Peters, JMLR 2016), for rollouts with contexts.

Rollout i has base weight q_i, return R_i, features phi_i and, under the old policy, responsibilities p~_io. The new
weights p_io maximise sum_io p_io R_i subject to

    sum_io p_io log(p_io / (q_i p~_io)) <= epsilon     (stay near the rollouts)
    -sum_io p_io log p~_io <= kappa                    (options must not overlap)
    sum_io p_io phi_i = phi_hat = sum_i q_i phi_i      (contexts are not the policy's to choose)
    sum_io p_io = 1.

They are p_io proportional to q_i p~_io^(1 + zeta / eta) exp((R_i - v^T phi_i) / eta) at the minimum over eta > 0,
zeta >= 0 and v of the convex

    g(eta, zeta, v) = eta epsilon + zeta kappa + v^T phi_hat
                      + eta log sum_io q_i p~_io^(1 + zeta / eta) exp((R_i - v^T phi_i) / eta).

The problems are small, a few thousand rollouts by a few tens of options: numpy will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpsde.base.later import Later
from hpsde.steps.dual import FEATURE_RIDGE, ROUNDING

special = Later("scipy.special")


NEWTON_STEPS = 30
BISECTION_STEPS = 36
STEP_LENGTHS = 0.5 ** np.arange(14.0)
COLDEST, HOTTEST = -30.0, 7.0  # log eta, relative to the spread of the returns, which one crash can blow up
LARGEST_POWER = 100.0  # of zeta / eta, where no weights can keep the bound on the overlap
OVERLAP_BUDGET = 0.5  # how much of epsilon the bound on the overlap may spend


class DualProblem(NamedTuple):
    """Rollouts of positive base weight, as the dual sees them; log q is normalised and phi_hat is 0."""

    returns: np.ndarray  # [N] the highest is 0
    features: np.ndarray  # [N, F] mean 0 and deviation 1 under q
    log_base: np.ndarray  # [N] log q
    log_responsibilities: np.ndarray  # [O, N] log p~


class DualSolution(NamedTuple):
    """The weights log p_io [O, N], the multipliers, and what the bounds came to."""

    log_weights: np.ndarray
    eta: float
    zeta: float
    v: np.ndarray  # [F] for the standardised features
    divergence: float  # sum p log(p / (q p~))
    overlap: float  # -sum p log p~
    kappa: float  # the bound that the overlap was given


class _Tilt(NamedTuple):
    """Weights at a fixed 1 / eta: power zeta / eta of p~ and u = v / eta."""

    log_weights: np.ndarray
    power: float
    u: np.ndarray
    divergence: float
    overlap: float


def make_problem(
    returns: np.ndarray, features: np.ndarray, log_base: np.ndarray, log_responsibilities: np.ndarray
) -> DualProblem:
    """The problem in the dual's own units; all rows must have a base weight above zero."""
    base = np.exp(log_base - special.logsumexp(log_base))
    centred = features - base @ features
    deviation = np.sqrt(base @ centred**2)
    usable = deviation > 1e-9 * (1.0 + np.max(np.abs(features), axis=0))
    standard = np.where(usable, centred / np.where(usable, deviation, 1.0), 0.0)
    below = returns - returns.max()
    below = np.where(np.abs(below) > ROUNDING * np.max(np.abs(returns)), below, 0.0)
    return DualProblem(below, standard, np.log(base), log_responsibilities)


def overlap(problem: DualProblem) -> float:
    """H_q = -sum_io q_i p~_io log p~_io: the overlap of the old options."""
    logs = problem.log_responsibilities
    return float(-np.sum(np.exp(problem.log_base + logs) * logs))


def solve(problem: DualProblem, *, epsilon: float, kappa: float) -> DualSolution:
    """The minimum of g. The divergence falls as eta grows: eta is its root, with zeta / eta and v / eta inside.

    Where the overlap cannot come down to kappa within half of epsilon, kappa is raised to what it can come down to:
    the other half is for the returns.
    """
    tilt = _tilt(problem, 0.0, kappa, None)
    if tilt.divergence > OVERLAP_BUDGET * epsilon:

        def at_bound(bound: float, _: _Tilt) -> _Tilt:
            return _tilt(problem, 0.0, bound, None)

        highest = overlap(problem)
        kappa, tilt = _halve(at_bound, highest, kappa, OVERLAP_BUDGET * epsilon, at_bound(highest, tilt))
    base = np.exp(problem.log_base)
    spread = float(np.sqrt(base @ (problem.returns - base @ problem.returns) ** 2)) or 1.0

    def at(log_eta: float, near: _Tilt) -> _Tilt:
        return _tilt(problem, np.exp(-log_eta) / spread, kappa, near)

    log_eta = HOTTEST
    while log_eta > COLDEST and (colder := at(log_eta - 1.0, tilt)).divergence <= epsilon:
        log_eta, tilt = log_eta - 1.0, colder
    if log_eta > COLDEST:
        log_eta, tilt = _halve(at, log_eta, log_eta - 1.0, epsilon, tilt)
    eta = float(spread * np.exp(log_eta))
    return DualSolution(tilt.log_weights, eta, eta * tilt.power, eta * tilt.u, tilt.divergence, tilt.overlap, kappa)


def _halve(
    at: Callable[[float, _Tilt], _Tilt], inside: float, outside: float, bound: float, tilt: _Tilt
) -> tuple[float, _Tilt]:
    """Where the divergence meets its bound: between `inside`, with the weights `tilt` that keep it, and `outside`."""
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (inside + outside)
        trial = at(middle, tilt)
        if trial.divergence <= bound:
            inside, tilt = middle, trial
        else:
            outside = middle
    return inside, tilt


def _tilt(problem: DualProblem, beta: float, kappa: float, start: _Tilt | None) -> _Tilt:
    """Weights at 1 / eta = beta that keep the overlap and the features, by Newton's steps on the convex

    L(lambda, u) = log sum_io q_i p~_io^(1 + lambda) exp(beta R_i - u^T phi_i) + lambda kappa + ridge / 2 |u|^2

    with 0 <= lambda <= LARGEST_POWER. The small ridge bounds u where no weights can match the features.
    """
    size = problem.features.shape[1]
    x = np.zeros(1 + size) if start is None else np.concatenate([[start.power], start.u])
    value, gradient, curvature = _expand(problem, beta, kappa, x)
    for _ in range(NEWTON_STEPS):
        direction = _direction(x[0], gradient, curvature)
        decrease = gradient @ direction
        if decrease < 1e-20:
            break
        end = 0.0 if direction[0] > 0.0 else LARGEST_POWER
        longest = min(1.0, (x[0] - end) / direction[0]) if direction[0] != 0.0 else 1.0
        for length in longest * STEP_LENGTHS:
            trial = x - length * direction
            trial[0] = np.clip(trial[0], 0.0, LARGEST_POWER)
            expanded = _expand(problem, beta, kappa, trial)
            # So near the minimum that rounding hides the decrease, Newton's step is right as it is.
            if decrease < 1e-10 or expanded[0] <= value - 1e-4 * length * decrease:
                break
        else:
            break
        x, (value, gradient, curvature) = trial, expanded
    power, u = float(x[0]), x[1:]
    logs = problem.log_base + (1.0 + power) * problem.log_responsibilities + beta * problem.returns
    logs = logs - problem.features @ u
    logs = logs - logs.max()
    logs = logs - special.logsumexp(logs)
    p = np.exp(logs)
    divergence = np.sum(p * (logs - problem.log_base - problem.log_responsibilities))
    return _Tilt(logs, power, u, float(divergence), float(-np.sum(p * problem.log_responsibilities)))


def _direction(power: float, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Newton's direction; with the power held where it stands at an end of its range and would leave it."""
    full = np.linalg.solve(curvature, gradient)
    if (power <= 0.0 and full[0] > 0.0) or (power >= LARGEST_POWER and full[0] < 0.0):
        full[1:] = np.linalg.solve(curvature[1:, 1:], gradient[1:])
        full[0] = 0.0
    return full


def _expand(problem: DualProblem, beta: float, kappa: float, x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """L, its gradient and its curvature: moments of the statistics (log p~, -phi) under the weights."""
    logs, phi = problem.log_responsibilities, problem.features
    # By hand, not by logsumexp: this is where the time goes.
    powered = (1.0 + x[0]) * logs
    highest = powered.max(axis=0)
    given = np.exp(powered - highest)
    total = given.sum(axis=0)
    given /= total  # p(o | i)
    first, second = np.sum(given * logs, axis=0), np.sum(given * logs**2, axis=0)
    row_logs = problem.log_base + highest + np.log(total) + beta * problem.returns - phi @ x[1:]
    log_sum = special.logsumexp(row_logs)
    rows = np.exp(row_logs - log_sum)  # p(i)
    statistics = np.concatenate([first[:, None], -phi], axis=1)
    mean = rows @ statistics
    curvature = (statistics.T * rows) @ statistics - np.outer(mean, mean)
    curvature[0, 0] += rows @ (second - first**2) + 1e-12
    ridge = FEATURE_RIDGE * np.eye(phi.shape[1])
    curvature[1:, 1:] += ridge
    gradient = mean + np.concatenate([[kappa], FEATURE_RIDGE * x[1:]])
    return log_sum + x[0] * kappa + 0.5 * FEATURE_RIDGE * x[1:] @ x[1:], gradient, curvature
