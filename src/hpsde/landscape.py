"""Samples of the optimal policy's density, drawn by the modelled return (paper, "Return-Weighted Density Estimation").

The density to be estimated is p(s) f(R(s, xi)) / Z(s), and the paper's samples of it are the rollouts, weighted. In
many dimensions few rollouts carry all the weight, too few to tell solutions apart. A Gaussian process knows the return
between the rollouts, too. Here a few hundred rollouts are moved by Metropolis steps, each in its own context, at

    p(xi | s) proportional to pi_0(xi) exp(m(xi, s) / T),    m the mean of the process, pi_0 a standard Gaussian,

while T falls from far above the T of f to below it (simulated annealing). A sample does not cross a valley of the
return once T is low, so a solution keeps its samples even where another is somewhat better. The samples are then
weighted by f as rollouts are.

The landscape is what stays the same meanwhile: the kernel, and the directions in which options are told apart. It is
found from the first rollouts, and anew whenever their number has doubled.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import gp, surface
from hpsde._padding import pad_rows
from hpsde._precision import single
from hpsde._shapes import Array, Float
from hpsde.warp import Warp

SAMPLES = 512
POINTS = 512  # most rollouts that the process is conditioned on
STEPS = 120
COOLING = 0.8  # of the steps; the others are at the last temperature
HOTTEST, COLDEST = 5.0, 0.3  # in units of the T of f
ACCEPTANCE, ADAPTATION = 0.3, 0.3  # share of moves to accept, and how fast their size follows it
UNKNOWN = 0.25  # quantile of the first rollouts' returns that is expected where nothing is known
GROWTH = 2.0  # of the number of rollouts before the landscape is found anew
GOOD = 0.9  # quantile of the returns at which T is translated into scores
FLAT = 0.05  # of the longest move of the parameters, in lengths, counts as none


class Landscape(NamedTuple):
    """Kernel, map of the returns to scores, and directions; see `surface.Surface`. axes None: none but its own."""

    hyperparameters: gp.Hyperparameters
    axes: Float[Array, "Z Z"] | None
    warp: Warp
    directions: np.ndarray | None
    relevance: np.ndarray | None
    rollouts: int  # that it was found from


class Samples(NamedTuple):
    """M samples [s, xi] [M, S + D] with their modelled returns, and in whose rollouts' contexts they are [M]."""

    rows: np.ndarray
    joint: np.ndarray
    returns: np.ndarray


def make(found: surface.Surface, rollouts: int) -> Landscape:
    """The landscape of a fitted surface."""
    return Landscape(found.process.hyperparameters, found.axes, found.warp, found.directions, found.relevance, rollouts)


def is_old(landscape: Landscape, rollouts: int) -> bool:
    """Whether it should be found anew."""
    return rollouts >= GROWTH * landscape.rollouts


def choose(rng: np.random.Generator, initial: np.ndarray, mask: np.ndarray, size: int = POINTS) -> np.ndarray:
    """Numbers of at most `size` rollouts: half of them initial ones, which know the return at large."""
    first, others = np.flatnonzero(mask & initial), np.flatnonzero(mask & ~initial)
    count = min(len(first), max(size // 2, size - len(others)))
    further = min(len(others), size - count)
    return np.sort(np.r_[rng.choice(first, count, replace=False), rng.choice(others, further, replace=False)])


def sample(
    key: Array,
    landscape: Landscape,
    joint: np.ndarray,
    context_size: int,
    returns: np.ndarray,
    weights: np.ndarray,
    initial: np.ndarray,
    mask: np.ndarray,
    temperature: float,
) -> Samples:
    """Samples at rollouts [s, xi] [N, S + D] with importance `weights` [N]; `initial` [N] are the initial policy's.

    Half of them start at initial rollouts, half at rollouts drawn by their weights. `temperature` is the T of f.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    z = np.roll(joint, -context_size, axis=1)  # [xi, s]
    axes = np.eye(z.shape[1]) if landscape.axes is None else np.asarray(landscape.axes)
    # Better than all returns that the landscape was found from is as good as the best: who lags behind is not left.
    scores = np.interp(returns, landscape.warp.returns, landscape.warp.scores)
    first = np.flatnonzero(mask & initial)
    first = first if len(first) else np.flatnonzero(mask)
    chosen = choose(rng, initial, mask)
    process = gp.posterior(
        landscape.hyperparameters,
        pad_rows(z[chosen] @ axes.T, POINTS),
        pad_rows(scores[chosen], POINTS),
        np.arange(POINTS) < len(chosen),
        mean=float(np.quantile(scores[first], UNKNOWN)),
    )
    at_random = rng.choice(first, SAMPLES // 2, replace=len(first) < SAMPLES // 2)
    rows = np.concatenate([at_random, rng.choice(len(mask), SAMPLES - len(at_random), p=weights / weights.sum())])
    good = min(float(np.quantile(returns[mask], GOOD)), float(landscape.warp.returns[-1]))
    high, low = np.interp([good, good - temperature], landscape.warp.returns, landscape.warp.scores)
    moved, values = _anneal(
        key,
        single(process._replace(K_inverse=jnp.zeros((0, 0)))),
        single(axes),
        single(z[rows]),
        single(_moves(landscape, axes, z.shape[1] - context_size)),
        single(max(high - low, 1e-6)),
    )
    found = np.roll(np.asarray(moved, dtype=float), context_size, axis=1)
    return Samples(rows, found, landscape.warp.inverse(np.asarray(values, dtype=float)))


def _moves(landscape: Landscape, axes: np.ndarray, size: int) -> np.ndarray:
    """Moves of z [Z, Z], rows of zeros where there are fewer: of the parameters alone, a length along each direction.

    A direction that the return does not depend on is left as it is: nothing is to be found there.
    """
    lengths = np.exp(np.asarray(landscape.hyperparameters.log_lengths))
    active = np.ones(len(lengths), dtype=bool)
    if landscape.relevance is not None:
        active = 1.0 / lengths >= landscape.relevance.min() * (1.0 - 1e-9)
    in_lengths = axes[active][:, :size] / np.minimum(lengths[active], 1.0)[:, None]
    _, pace, turn = np.linalg.svd(in_lengths, full_matrices=False)
    seen = pace > FLAT * pace[0]
    moves = np.zeros((len(lengths), len(lengths)))
    moves[: seen.sum(), :size] = turn[seen] / pace[seen][:, None]
    return moves


@jax.jit
def _anneal(
    key: Array,
    process: gp.GP,
    axes: Float[Array, "Z Z"],
    start: Float[Array, "M Z"],
    moves: Float[Array, "Z Z"],
    temperature: Float[Array, ""],
) -> tuple[Float[Array, "M Z"], Float[Array, " M"]]:
    """The samples after all steps, and their scores. Moves are so large that a share ACCEPTANCE is accepted."""
    of_parameters = jnp.any(moves != 0.0, axis=0)

    def log_initial(z: Array) -> Array:
        return -0.5 * jnp.sum(jnp.where(of_parameters, z, 0.0) ** 2, axis=1)

    def step(t: Array | int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        z, score, size = state
        key_move, key_accept = jax.random.split(jax.random.fold_in(key, t))
        cooled = jnp.minimum(t / (COOLING * STEPS), 1.0)
        T = temperature * HOTTEST * (COLDEST / HOTTEST) ** cooled
        moved = z + size * jax.random.normal(key_move, z.shape, z.dtype) @ moves
        new = gp.predict_mean(process, moved @ axes.T)
        gain = (new - score) / T + log_initial(moved) - log_initial(z)
        accepted = jnp.log(jax.random.uniform(key_accept, gain.shape, z.dtype)) < gain
        size = size * jnp.exp(ADAPTATION * (jnp.mean(accepted, dtype=z.dtype) - ACCEPTANCE))
        return jnp.where(accepted[:, None], moved, z), jnp.where(accepted, new, score), size

    begin = (start, gp.predict_mean(process, start @ axes.T), jnp.asarray(0.5, start.dtype))
    z, score, _ = jax.lax.fori_loop(0, STEPS, step, begin)
    return z, score
