"""The return function over z = [xi, s], approximated by a Gaussian process, and the directions in which it varies.

The process is the paper's gate. Beyond that it tells what of context and parameters the return depends on: along an
axis with a long length it hardly changes, and what changes nothing cannot tell solutions apart.

With more than four numbers in all, axes are chosen by how well rollouts that were left out are predicted: the numbers'
own axes, axes turned onto the directions in which the return varies (gp/axes.py), or few directions alone
(gp/directions.py). In the same way, and with any number of numbers, the kernel is chosen: the squared exponential, or
Matérn's where the return has edges (gp/kernel.py). Returns of two values have a likelihood of their own (gp/binary.py),
and the squared exponential.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpsde import gp
from hpsde.base.groups import Group, setting
from hpsde.base.joint import parameters_first
from hpsde.base.shapes import Array, Float
from hpsde.gp import binary as gp_binary
from hpsde.gp.axes import ROUNDING, turned_axes
from hpsde.gp.directions import NOISE, SIGNAL, few_directions, leading
from hpsde.gp.sparse import Missed, condition_sparse, looked_at
from hpsde.gp.warp import WARPS, Warp, fit_warp
from hpsde.steps.configuration import LARGEST_POINTS, ReturnModelSettings, SurfaceSettings

FEW_DIMENSIONS = 4  # of contexts and parameters together: up to here the process sees them along their own axes
ENOUGH_ROLLOUTS = 5  # for every dimension, before axes are turned
REFIT = 1.1  # growth of the number of rollouts before hyper-parameters are fitted again
GROWTH = 1.25  # of the number of rollouts before the axes are found again, and the landscape's kernel and that of odds
CHOICE_GROWTH = 1.5  # of the number of rollouts before the kind of axes is chosen again
STEADY = 0.25  # nats for each rollout left out, that own axes or few directions must gain over turned ones
FIRST_TURNS = 3  # of the axes the first time; later fits go on from the last
FIRST_LENGTHS = (0.3, 1.0, 3.0)  # to start from the first time, in spreads
LONGEST_CONTEXT = 1.0  # deviations: length of a context along which odds are taken to change, at most
TOLERANCE = 1e-5  # of the likelihood, that a step must gain: some thousandths of a nat
DIRECTIONS = 5  # at most, where few are tried
LEFT_OUT = 4  # every so many rollouts one is left out to choose the axes by
BY_WAY_OF = 2.0 / 3.0  # of the most points of an exact process: points that all rollouts speak by where there are more
MANY = 4  # times `max_points`: with more rollouts a sparse process sees all of them
CONTRADICTED = 0.1  # nats for every rollout, by which all are less likely than as mere noise
FIT_POINTS = 384  # most rollouts that the marginal likelihood looks at, and that axes on trial are found from


class Start(NamedTuple):
    """Where the next fit starts from: hyper-parameters, and axes A [E, Z] where they are not the numbers' own.

    fitted, found, chosen: numbers of rollouts that hyper-parameters were last fitted to, axes were found by, and their
    kind was chosen by. mean: the prior mean of log odds, where returns are success or failure. held_out: R^2 of the
    rollouts left out when axes were chosen. unit: returns that a score was at the last fit.
    """

    hyperparameters: gp.Hyperparameters | None = None
    axes: np.ndarray | None = None
    kind: str = ""
    fitted: int = 0
    found: int = 0
    chosen: int = 0
    mean: float | None = None
    held_out: float | None = None
    unit: float = 1.0

    @property
    def kernel(self) -> str:
        """The name of its kernel; at first the squared exponential."""
        return "se" if self.hyperparameters is None else self.hyperparameters.kernel.name


@dataclass(frozen=True)
class ReturnModel(Group):
    """The Gaussian process that models the return."""

    warp: str = setting("clip", "Map of the returns before the Gaussian process.", choices=WARPS)
    axes: str = setting(
        "automatic",
        "Its axes: own (one length for each context number and parameter), turned (one for each of the directions in "
        "which the return varies), few (five directions at most), isotropic (one length for all, the paper's), or "
        "automatic: with more than four numbers turned, or own or few where these predict left-out rollouts clearly "
        "better.",
        choices=("automatic", "own", "turned", "few", "isotropic"),
    )
    max_points: int = setting(
        1536,
        "Most rollouts that it is conditioned on exactly. With more, it sees the newest and a quarter of older ones. "
        "With more than four times as many it sees all by way of two thirds as many points, unless they are success or "
        "failure.",
        low=2,
        high=LARGEST_POINTS,
    )


class Sparse(NamedTuple):
    """What is known of the rollouts of a sparse process (gp/sparse.py), whose points are only some of them."""

    missed: Missed  # of the rollouts `rows` of the surface
    scores: np.ndarray  # [n] of these
    z: np.ndarray  # [p, E] points that its hyper-parameters were fitted to
    y: np.ndarray  # [p] and their scores


class Surface(NamedTuple):
    """The process over z, or over A z, of the warped returns `scores`. binary: it is one of success or failure."""

    process: gp.GP
    scores: Float[np.ndarray, " N"]
    warp: Warp
    axes: Float[np.ndarray, "E Z"] | None
    start: Start
    rows: np.ndarray  # [n] numbers of the rollouts that the first n points of the process are, or that `sparse` knows
    unit: float  # returns that a score is
    binary: bool = False
    sparse: Sparse | None = None


def fit(
    key: Array,
    joint: np.ndarray,
    context_size: int,
    returns: np.ndarray,
    share: np.ndarray,
    mask: np.ndarray,
    spreads: np.ndarray,
    start: Start,
    settings: SurfaceSettings,
    least_depth: float = 0.0,
) -> Surface:
    """The surface of rollouts [s, xi] [N, S + D], padded, with `share` [N] of weight for good returns.

    least_depth: returns are told apart so far under the good ones at least.
    """
    rows = np.flatnonzero(mask)
    z = parameters_first(joint, context_size)[rows]
    if settings.return_model.warp != "none" and gp_binary.is_binary(returns[rows], share[rows], z):
        scores, warp, binary = returns[rows] == returns[rows].max(), gp_binary.odds_warp(returns[rows]), True
    else:
        (scores, warp), binary = fit_warp(returns[rows], share[rows], settings.return_model.warp, least_depth), False
    every = np.zeros(len(mask))
    every[rows] = scores
    return fit_scores(key, joint, context_size, every, warp, binary, mask, spreads, start, settings)


def fit_scores(
    key: Array,
    joint: np.ndarray,
    context_size: int,
    scores: np.ndarray,
    warp: Warp,
    binary: bool,
    mask: np.ndarray,
    spreads: np.ndarray,
    start: Start,
    settings: SurfaceSettings,
    smooth: bool = False,
) -> Surface:
    """The surface of rollouts whose scores [N] by that warp are known; 1 and 0 where they are success or failure.

    smooth: its kernel is the squared exponential, whatever others would predict.
    """
    rows = np.flatnonzero(mask)
    most = settings.return_model.max_points
    many = not binary and len(rows) > MANY * most
    points = gp.choose_points(key, len(rows), most)
    z, y = parameters_first(joint, context_size)[rows[points]], scores[rows[points]]  # z = [xi, s]
    z = z * (z.std(axis=0) > ROUNDING)  # in standard units: what varies by rounding alone would get lengths as small
    standard = (y - y.mean()) / max(float(y.std()), 1e-12) if binary else y
    before, start = start, _find_axes(z, standard, len(rows), spreads, start, settings, binary or smooth)
    seen, known = z if start.axes is None else z @ start.axes.T, np.ones(len(points), dtype=bool)
    unit = warp.unit
    hyperparameters = start.hyperparameters
    grown = len(rows) >= (GROWTH if binary else REFIT) * start.fitted
    old = smooth or start.found != before.found or grown
    if binary:
        success = y > 0.5
        mean = gp_binary.base_rate(scores[rows]) if start.mean is None else start.mean
        if hyperparameters is None or start.mean is None or old:
            hyperparameters = _likeliest_odds(seen, success, mean, start, z.shape[1] - context_size)
        start = start._replace(mean=mean)
        process = gp_binary.condition_binary(hyperparameters, seen, success, known, mean)
    else:
        if hyperparameters is None or start.mean is not None or old:  # odds were fitted before
            hyperparameters = _likeliest_process(seen, y, known, hyperparameters, settings)
        else:
            hyperparameters = _rescaled(hyperparameters, start.unit / unit)
        start = start._replace(mean=None)
        if not many:
            process = gp.posterior(hyperparameters, seen, y, known)
    start = start._replace(hyperparameters=hyperparameters, fitted=len(rows) if old else start.fitted, unit=unit)
    axes = start.axes
    if not many:
        return Surface(process, y, warp, axes, start, rows[points], unit, binary)
    every, fitted_to = parameters_first(joint, context_size)[rows], (seen, y)
    every = every if start.axes is None else every @ start.axes.T
    looked = looked_at(scores[rows])
    process, chosen, missed = condition_sparse(hyperparameters, every, scores[rows], int(BY_WAY_OF * most), looked)
    kept, sparse = scores[rows[chosen]], Sparse(missed, scores[rows[looked]], *fitted_to)
    return Surface(process, kept, warp, axes, start, rows[looked], unit, False, sparse)


def _rescaled(known: gp.Hyperparameters, factor: float) -> gp.Hyperparameters:
    """The same for scores so many times as large."""
    change = float(np.log(factor))
    return known._replace(log_signal=known.log_signal + change, log_noise=known.log_noise + change)


def _likeliest_odds(z: np.ndarray, success: np.ndarray, mean: float, start: Start, size: int) -> gp.Hyperparameters:
    """Hyper-parameters for success or failure, from the last ones; at first from two starts. z has `size` parameters.

    Successes may be few. Where they lie on two lines and one is level, the likeliest kernel does not see the context:
    the successes on the other line tell nothing of one another. So on own axes no context is as good as constant.
    """
    longest = np.full(z.shape[1], gp_binary.LONGEST)
    if start.axes is None:
        longest[size:] = LONGEST_CONTEXT
    if start.mean is not None and start.hyperparameters is not None:
        return gp_binary.fit_binary(z, success, mean, [start.hyperparameters], longest)
    deviation = np.log(np.maximum(z.std(axis=0), 1e-12))
    starts = [deviation + np.log(length) for length in FIRST_LENGTHS[:2]]
    lengths = [gp.Hyperparameters(each, np.zeros(()), np.zeros(())) for each in starts]
    return gp_binary.fit_binary(z, success, mean, lengths, longest)


def is_needed(settings: ReturnModelSettings) -> bool:
    """Whether anything asks for the process: the gate, the search for options or the options themselves."""
    return settings.gate.needs_surface or settings.density.kind == "options" or settings.options.model_step


def _find_axes(
    z: np.ndarray,
    y: np.ndarray,
    count: int,
    spreads: np.ndarray,
    start: Start,
    settings: SurfaceSettings,
    smooth: bool = False,
) -> Start:
    """The start with its axes and its kernel: as they are, found again, or chosen anew."""
    enough = count >= ENOUGH_ROLLOUTS * z.shape[1]
    kinds = ("own", "turned", "few") if enough and z.shape[1] > FEW_DIMENSIONS else ("own",)
    if settings.return_model.axes != "automatic":
        kinds = ("own",) if settings.return_model.axes == "isotropic" else (settings.return_model.axes,)
    of_kernels = enough and not smooth and settings.return_model.axes == "automatic"
    if smooth:
        start = _with_kernel(start, "se")
    if start.kind and count < GROWTH * start.found:
        return start
    if start.kind and count < CHOICE_GROWTH * start.chosen:
        return _axes_of(start.kind, z, y, spreads, start, settings)._replace(found=count)
    start = _with_kernel(start, "se")
    if len(kinds) > 1:
        score, start = _choose_axes(kinds, z, y, spreads, start, settings)
        start = _likelier_kernel(score, start, z, y, settings) if of_kernels else start
    found = _axes_of(start.kind or kinds[0], z, y, spreads, start, settings)
    if len(kinds) == 1 and of_kernels:
        other = _likelier_kernel(*_left_out(found, z, y, settings), z, y, settings)
        found = found if other.kernel == found.kernel else found._replace(hyperparameters=other.hyperparameters)
    return found._replace(found=count, chosen=count)


def _choose_axes(
    kinds: tuple[str, ...], z: np.ndarray, y: np.ndarray, spreads: np.ndarray, start: Start, settings: SurfaceSettings
) -> tuple[float, Start]:
    """The kind of axes with which rollouts left out are likeliest, and how likely they are, as by `_left_out`.

    Own axes and few directions must be better than turned ones by STEADY nats for each of them, and have the smaller
    mean error.
    """
    inside = _split(len(z))[2]
    results: list[tuple[float, Start]] = []
    for kind in kinds:
        before = start if start.kind == kind or not results else results[-1][1]
        found = _axes_of(kind, z[inside], y[inside], spreads, before, settings)
        results.append(_left_out(found, z, y, settings))
    default = results[kinds.index("turned")]
    better = [each for each in results if _predicts_better(each, default, STEADY)]
    return max(better, key=lambda each: each[0], default=default)


def _predicts_better(one: tuple[float, Start], other: tuple[float, Start], margin: float = 0.0) -> bool:
    """Whether rollouts left out are likelier by more than the margin, and their mean error is less.

    Larger deviations alone make those at the margin likelier where there is hardly any noise, with a worse mean
    everywhere.
    """
    return one[0] > other[0] + margin and (one[1].held_out or 0.0) > (other[1].held_out or 0.0)


def _split(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rollouts are left out [count], the numbers of the others, and of those to find hyper-parameters from."""
    out = np.arange(count) % LEFT_OUT == 0
    known = np.flatnonzero(~out)
    return out, known, known[gp.fitting_subset(len(known), FIT_POINTS)]


def _left_out(found: Start, z: np.ndarray, y: np.ndarray, settings: SurfaceSettings) -> tuple[float, Start]:
    """Nats for each rollout left out, and the start fitted to the others, with the share of variance it explains."""
    out, known, _ = _split(len(z))
    A, _ = _seen_by(found, z.shape[1])
    every = np.ones(len(known), dtype=bool)
    hyperparameters = _likeliest_process(z[known] @ A.T, y[known], every, found.hyperparameters, settings)
    mean, variance = gp.predict(gp.posterior(hyperparameters, z[known] @ A.T, y[known], every), z[out] @ A.T)
    variance = variance + np.exp(2.0 * float(hyperparameters.log_noise))
    score = np.mean(-0.5 * (y[out] - mean) ** 2 / variance - 0.5 * np.log(variance))
    explained = 1.0 - np.mean((y[out] - mean) ** 2) / max(np.var(y[out]), 1e-12)
    return float(score), found._replace(hyperparameters=hyperparameters, held_out=float(explained))


def _likelier_kernel(score: float, found: Start, z: np.ndarray, y: np.ndarray, settings: SurfaceSettings) -> Start:
    """`found`, whose score that is, or the same with the kernel that predicts rollouts left out better."""
    best = score, found
    for kernel in gp.KERNELS:
        if kernel != found.kernel and _predicts_better(
            other := _left_out(_with_kernel(found, kernel), z, y, settings), best
        ):
            best = other
    return best[1]


def _with_kernel(start: Start, kernel: str) -> Start:
    known = start.hyperparameters
    return start if known is None else start._replace(hyperparameters=gp.with_kernel(known, kernel))


def _axes_of(
    kind: str, z: np.ndarray, y: np.ndarray, spreads: np.ndarray, start: Start, settings: SurfaceSettings
) -> Start:
    """Axes of that kind, found from the start's where it has the same kind, and hyper-parameters to go on from."""
    hyperparameters: gp.Hyperparameters | None
    every = np.ones(len(z), dtype=bool)
    if kind == "few":
        if start.kind not in ("few", "turned"):
            start = _axes_of("turned", z, y, spreads, start, settings)
        some = gp.fitting_subset(len(z), FIT_POINTS)
        W = leading(*_seen_by(start, z.shape[1]), DIRECTIONS)
        W, (signal, noise) = few_directions(z[some], y[some], W)
        hyperparameters = gp.Hyperparameters(np.zeros(len(W)), np.asarray(signal), np.asarray(noise))
        hyperparameters = gp.with_kernel(hyperparameters, start.kernel)
        return start._replace(hyperparameters=hyperparameters, axes=W, kind=kind)
    hyperparameters = start.hyperparameters
    if hyperparameters is None or start.kind not in (kind, "own"):
        hyperparameters = gp.with_kernel(_first_hyperparameters(z, y, every, spreads, settings), start.kernel)
    if kind == "own":
        return start._replace(hyperparameters=hyperparameters, axes=None, kind=kind)
    again = start.kind == kind and start.axes is not None
    axes = np.eye(z.shape[1]) if start.axes is None or not again else start.axes
    for turn in range(1 if again else FIRST_TURNS):
        if turn:
            hyperparameters, _ = _likeliest(z @ axes.T, y, every, hyperparameters, settings)
        axes, hyperparameters = turned_axes(gp.posterior(hyperparameters, z @ axes.T, y, every), axes)
    return start._replace(hyperparameters=hyperparameters, axes=axes, kind=kind)


def _seen_by(start: Start, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Axes [E, Z] and lengths [E] of a start."""
    axes = np.eye(size) if start.axes is None else start.axes
    known = start.hyperparameters
    return axes, np.ones(len(axes)) if known is None else np.exp(np.asarray(known.log_lengths))


def _likeliest_process(
    z: np.ndarray, y: np.ndarray, mask: np.ndarray, start: gp.Hyperparameters | None, settings: SurfaceSettings
) -> gp.Hyperparameters:
    """The likeliest hyper-parameters, found from some of the points; or the start's, if the likelihood of all points
    is higher there: what some points look like the others may contradict. If all points are clearly less likely than
    as mere noise, as hardly any fault is among those that were looked at, found from all, with more noise at first.
    """
    found, info = _likeliest(z, y, mask, start, settings)
    count = int(mask.sum())
    if info.points >= count:
        return found
    known = [(float(gp.log_evidence(each, z, y, mask)), each) for each in (found, start) if each is not None]
    value, found = max(known, key=lambda each: each[0])
    noise = -0.5 * (np.log(2.0 * np.pi * max(float(np.var(y[mask])), 1e-300)) + 1.0)
    if value < count * (noise - CONTRADICTED):
        noisy = found._replace(log_noise=np.maximum(found.log_noise, found.log_signal + np.log(NOISE)))
        found, _ = _likeliest(z, y, mask, noisy, settings, count)
    return found


def _likeliest(
    z: np.ndarray,
    y: np.ndarray,
    mask: np.ndarray,
    start: gp.Hyperparameters | None,
    settings: SurfaceSettings,
    points: int | None = None,
) -> tuple[gp.Hyperparameters, gp.FitInfo]:
    isotropic, points = settings.return_model.axes == "isotropic", points or FIT_POINTS
    return gp.fit_hyperparameters(z, y, mask, start, isotropic=isotropic, fit_points=points, tolerance=TOLERANCE)


def _first_hyperparameters(
    z: np.ndarray, y: np.ndarray, mask: np.ndarray, spreads: np.ndarray, settings: SurfaceSettings
) -> gp.Hyperparameters:
    """The likeliest of fits from several starts, each with one length for all numbers as they were before whitening.

    Whitened numbers that hardly varied are as large as the others; from equal lengths for all, the fit may end
    where the return depends on those alone.
    """

    def found(length: float) -> tuple[gp.Hyperparameters, gp.FitInfo]:
        lengths = np.clip(length / spreads, *gp.DEFAULT_BOUNDS.length)
        start = gp.Hyperparameters(*(np.log(np.asarray(value)) for value in (lengths, SIGNAL, NOISE)))
        return _likeliest(z, y, mask, start, settings)

    return max((found(length) for length in FIRST_LENGTHS), key=lambda each: each[1].objective)[0]
