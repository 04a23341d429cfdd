"""The landscape in which solutions are sought: the return as modelled from the first rollouts on, and samples of it.

The density to be estimated is p(s) f(R(s, xi)) / Z(s), and the paper's samples of it are the rollouts, weighted. Few
rollouts carry all the weight, too few to tell many solutions apart. A Gaussian process knows the return between the
rollouts, too. Here some hundred points are moved by Metropolis steps, each in its own context, at

    p(xi | s) proportional to pi_0(xi) exp(m(xi, s) / T_t),    m the mean of the process,

while T_t falls from the T of f to a tenth of it (simulated annealing). A sample does not cross a valley of the return
at these temperatures, so a solution keeps its samples even where another is somewhat better.

The gate's process follows the policy: its scores resolve the good returns ever more finely, and what lies between the
solutions is flat for it. The landscape keeps the scores and the T of the first rollouts and sees as many initial
rollouts as later ones. Its kernel is fitted anew whenever the rollouts have grown by a quarter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde import gp
from hpsde.base.draws import generator
from hpsde.base.joint import contexts_first, parameters_first
from hpsde.base.precision import single
from hpsde.base.shapes import Array, Float
from hpsde.gp import binary as gp_binary
from hpsde.gp.warp import Warp
from hpsde.steps import surface
from hpsde.steps.residuals import left_out_share

SAMPLES, PER_OPTION = 512, 32  # samples at least, and for every option there may be
POINTS = 1024  # most rollouts that the process is conditioned on
STEPS = 50
COOLING = 0.8  # of the steps; the others are at the last temperature
COLDEST = 0.1  # in units of the T of f
ACCEPTANCE, ADAPTATION = 0.3, 0.3  # share of moves to accept, and how fast their size follows it
FIRST_MOVE = 0.6  # of the longest
LONGEST = 0.5  # move, in kernel lengths: longer ones hop to the better solution and leave the lesser
ACTIVE = 6.0  # deviations: along longer lengths nothing is to be found,
SLOWEST = 1.0 / 30.0  # nor where the return changes so much more slowly than along the fastest combination


class View(NamedTuple):
    """What the return sees of the parameters, in kernel lengths: y = xi V; and back, xi = y L where nothing else is."""

    V: np.ndarray  # [D, K]
    L: np.ndarray  # [K, D]


class Landscape(NamedTuple):
    """What stays the same between two fits of the kernel.

    start: where the surface's next fit starts from. axes: E directions of z = [xi, s]; None: its own. warp: the first
    rollouts' map of returns to scores. rollouts: how many the kernel was fitted to. temperature: T of the scores.
    binary: scores are log odds of success, whose prior mean is `start.mean`.
    """

    hyperparameters: gp.Hyperparameters
    axes: Float[np.ndarray, "E Z"] | None
    view: View
    start: surface.Start
    rollouts: int
    warp: Warp
    temperature: float
    binary: bool


def make(found: surface.Surface, size: int, rollouts: int, temperature: float) -> Landscape:
    """The landscape of a fitted surface over [xi, s] with `size` parameters."""
    kernel = found.process.hyperparameters
    view = make_view(kernel, found.axes, size)
    return Landscape(kernel, found.axes, view, found.start, rollouts, found.warp, temperature, found.binary)


def is_old(landscape: Landscape, rollouts: int) -> bool:
    """Whether its kernel should be fitted anew."""
    return rollouts >= surface.GROWTH * landscape.rollouts


def make_view(hyperparameters: gp.Hyperparameters, axes: np.ndarray | None, size: int) -> View:
    """The combinations of the parameters along which the return changes within ACTIVE deviations, and at least SLOWEST
    times as fast as along the fastest of them.

    The kernel sees parameters by A_xi / length; its singular vectors are those combinations, its singular values how
    many kernel lengths a deviation is. A length beyond one deviation counts as one.
    """
    lengths = np.exp(np.asarray(hyperparameters.log_lengths))
    A = np.eye(len(lengths)) if axes is None else np.asarray(axes)
    _, pace, turn = np.linalg.svd(A[:, :size] / lengths[:, None], full_matrices=False)
    seen = pace > min(max(1.0 / ACTIVE, SLOWEST * pace[0]), 0.999 * pace[0])
    if not seen.any():  # the context alone matters: all combinations are alike
        return View(np.eye(size), np.eye(size))
    pace = np.maximum(pace, 1.0)
    return View(turn[seen].T * pace[seen], turn[seen] / pace[seen][:, None])


def combinations(landscape: Landscape | None) -> np.ndarray | None:
    """Orthonormal combinations P [D, K] of the parameters that the return sees; None where these are all."""
    if landscape is None or landscape.view.V.shape[1] == len(landscape.view.V):
        return None
    return landscape.view.V / np.linalg.norm(landscape.view.V, axis=0)


def scores_of(landscape: Landscape, returns: np.ndarray) -> np.ndarray:
    """Scores by the first rollouts' map: as low as its lowest at least, and going on in a line above its highest.

    Where returns are success or failure: 1 and 0.
    """
    warp = landscape.warp
    if landscape.binary:
        return (returns >= warp.returns[-1]).astype(float)
    slope = (warp.scores[-1] - warp.scores[0]) / (warp.returns[-1] - warp.returns[0])
    above = np.maximum(returns - warp.returns[-1], 0.0)
    return np.interp(returns, warp.returns, warp.scores) + slope * above


def signal(landscape: Landscape) -> float:
    """Prior standard deviation of the return, in its own units."""
    scores, returns = np.ptp(landscape.warp.scores), np.ptp(landscape.warp.returns)
    return float(np.exp(float(landscape.hyperparameters.log_signal)) * returns / scores)


def choose(initial: np.ndarray, mask: np.ndarray, size: int = POINTS) -> np.ndarray:
    """Numbers of at most `size` rollouts: half of them initial ones, which know the return at large."""
    first, others = np.flatnonzero(mask & initial), np.flatnonzero(mask & ~initial)
    count = min(len(first), max(size // 2, size - len(others)))
    further = min(len(others), size - count)
    chosen = first[gp.spread_subset(len(first), count)], others[gp.fitting_subset(len(others), further)]
    return np.sort(np.concatenate(chosen))


def condition(
    landscape: Landscape, joint: np.ndarray, context_size: int, returns: np.ndarray, chosen: np.ndarray
) -> gp.GP:
    """The landscape's process given the chosen rollouts [s, xi] [N, S + D]; it expects a mean first score of 0."""
    z = parameters_first(joint, context_size)[chosen]
    z = z if landscape.axes is None else z @ np.asarray(landscape.axes).T
    scores, mask = scores_of(landscape, returns[chosen]), np.ones(len(chosen), dtype=bool)
    if landscape.binary:
        return gp_binary.condition_binary(landscape.hyperparameters, z, scores, mask, landscape.start.mean or 0.0)
    return gp.posterior(landscape.hyperparameters, z, scores, mask)


def unexplored(landscape: Landscape, process: gp.GP, first: np.ndarray) -> float:
    """The share of the prior variance that is left where a first rollout would be, were it not known.

    `first`: which points of the process are initial rollouts. Left out, point i has the variance 1 / (K^-1)_ii; the
    noise in it is no ignorance. Of success or failure one rollout tells little: NaN, for the share says nothing there.
    """
    if landscape.binary:
        return float("nan")
    variance = 1.0 / np.maximum(np.diagonal(np.asarray(process.K_inverse))[first], 1e-300)
    noise, signal = (np.exp(2.0 * float(each)) for each in (process.hyperparameters[2], process.hyperparameters[1]))
    return float(np.mean(np.clip((variance - noise) / signal, 0.0, 1.0)))


def explained(landscape: Landscape, process: gp.GP, returns: np.ndarray, first: np.ndarray) -> float:
    """R^2 of the first rollouts, points `first` of the process with these returns, each predicted from all others.

    Rollouts of a policy that has converged differ by noise alone, and say nothing of it. NaN for success or failure.
    """
    if landscape.binary or not len(first):
        return float("nan")
    return left_out_share(process, scores_of(landscape, returns), first)


def sample(
    key: Array,
    landscape: Landscape,
    process: gp.GP,
    starts: np.ndarray,
    context_size: int,
    temperature: float,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    flat: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Samples [s, xi] [M, S + D] from those starts, and their scores [M]. `temperature` is the T of f in scores.

    pi_0 is a standard Gaussian, or flat, and 0 beyond the `bounds` [D] of the parameters: there the process knows
    nothing and may rise to any height.
    """
    z = parameters_first(starts, context_size)
    size = z.shape[1] - context_size
    moves = np.zeros((size, size))
    moves[: len(landscape.view.L)] = landscape.view.L
    low, high = bounds if bounds is not None else (np.full(size, -np.inf), np.full(size, np.inf))
    z[:, :size] = np.clip(z[:, :size], low, high)
    given = gp.without_inverse(process), axes_of(landscape, z.shape[1]), z, moves, low, high
    moved, values = _anneal(generator(key), *single(given), pull=0.0 if flat else 1.0, temperature=temperature)
    return contexts_first(moved.astype(float), context_size), values.astype(float)


def axes_of(landscape: Landscape, size: int) -> np.ndarray:
    """Its axes [E, Z]: the numbers' own where it has no others."""
    return np.eye(size) if landscape.axes is None else np.asarray(landscape.axes)


def _anneal(
    rng: np.random.Generator,
    process: gp.GP,
    axes: Float[np.ndarray, "E Z"],
    z: Float[np.ndarray, "M Z"],
    moves: Float[np.ndarray, "D D"],
    low: Float[np.ndarray, " D"],
    high: Float[np.ndarray, " D"],
    *,
    pull: float,
    temperature: float,
) -> tuple[Float[np.ndarray, "M Z"], Float[np.ndarray, " M"]]:
    """The samples from these starts after all steps, and their scores. Moves are so large that a share ACCEPTANCE is
    accepted.
    """
    size, kind = moves.shape[0], z.dtype

    def log_initial(z: np.ndarray) -> np.ndarray:
        xi = z[:, :size]
        inside = np.all((xi >= low[None]) & (xi <= high[None]), axis=1)
        return np.where(inside, -0.5 * pull * np.sum(xi**2, axis=1), -np.inf)

    score, length = gp.predict_mean(process, z @ axes.T), FIRST_MOVE * LONGEST
    prior = log_initial(z)
    for t in range(STEPS):
        T = temperature * COLDEST ** min(t / (COOLING * STEPS), 1.0)
        moved = z.copy()
        moved[:, :size] += length * rng.standard_normal((len(z), size), dtype=kind) @ moves
        new, there = gp.predict_mean(process, moved @ axes.T), log_initial(moved)
        accepted = -rng.standard_exponential(len(z), dtype=kind) < (new - score) / T + there - prior
        length = min(length * float(np.exp(ADAPTATION * (np.mean(accepted) - ACCEPTANCE))), LONGEST)
        z, score, prior = (
            np.where(accepted.reshape(-1, *[1] * (one.ndim - 1)), one, other)
            for one, other in ((moved, z), (new, score), (there, prior))
        )
    return z, score
