"""The shortest routes through gaps in a wall, for all goals and gaps at once.

A route y = u + B a is linear in its parameters a, its length is convex in them, and the edges of a gap are linear
bounds on y. So the shortest route is the minimum of a convex function, and Newton's method finds it.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Float, Int

special = Later("scipy.special")


__all__ = ["shortest_routes"]

FORCE = 20.0
"""c of the penalty. The force of a taut string on a corner is 2 at the most, so that no route pays to touch an edge."""
WIDTHS = 4.0 * 0.5 ** np.arange(11)
"""tau of the penalty, one after the other; the last, 4 mm, is about how far the routes keep from the edges."""
NEWTON_STEPS = 8
HALVINGS = 20
"""How often a step that gains too little is halved before it is given up."""


def shortest_routes(
    x: Float[np.ndarray, " P"],
    unbent: Float[np.ndarray, "M P"],
    responses: Float[np.ndarray, "P B"],
    inside: Int[np.ndarray, " W"],
    low: Float[np.ndarray, " M"],
    high: Float[np.ndarray, " M"],
    goals: Float[np.ndarray, " M"],
) -> Float[np.ndarray, "M B"]:
    """Parameters of M routes that end at their goals, with the points `inside` the wall between low and high.

    Minimises length(a) + c tau sum over those points of softplus((low - y) / tau) + softplus((y - high) / tau)
    for falling tau, over the a for which the last point is the goal.
    """
    last = responses[-1]
    a = np.multiply.outer((goals - unbent[:, -1]) / (last @ last), last)
    free = np.linalg.svd(last[None])[2][1:].T  # the directions that leave the last point where it is, [B, B - 1]
    bends = responses @ free
    y = unbent + a @ responses.T
    for tau in WIDTHS:
        for _ in range(NEWTON_STEPS):
            step, slope = _newton_step(x, y, bends, inside, low, high, tau)
            step *= _shares(x, y, step @ bends.T, slope, inside, low, high, tau)[:, None]
            a, y = a + step @ free.T, y + step @ bends.T
    return a


def _shares(
    x: np.ndarray,
    y: np.ndarray,
    step: np.ndarray,
    slope: np.ndarray,
    inside: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tau: float,
) -> np.ndarray:
    """The largest of 1, 1/2, 1/4, ... with which a step lowers the cost by a quarter of what its slope says: [M]."""
    before = _cost(x, y, inside, low, high, tau)
    shares, rows = np.ones(len(y)), np.arange(len(y))
    for _ in range(HALVINGS):
        if not len(rows):
            return shares
        after = _cost(x, y[rows] + shares[rows, None] * step[rows], inside, low[rows], high[rows], tau)
        rows = rows[after > before[rows] + 0.25 * shares[rows] * slope[rows]]
        shares[rows] *= 0.5
    shares[rows] = 0.0
    return shares


def _cost(
    x: np.ndarray, y: np.ndarray, inside: np.ndarray, low: np.ndarray, high: np.ndarray, tau: float
) -> np.ndarray:
    """Length and penalty, [M]."""
    below, above = (low[:, None] - y[:, inside]) / tau, (y[:, inside] - high[:, None]) / tau
    penalty = np.sum(np.logaddexp(0.0, below) + np.logaddexp(0.0, above), axis=1)
    return np.sum(np.hypot(np.diff(x), np.diff(y, axis=1)), axis=1) + FORCE * tau * penalty


def _newton_step(
    x: np.ndarray, y: np.ndarray, bends: np.ndarray, inside: np.ndarray, low: np.ndarray, high: np.ndarray, tau: float
) -> tuple[np.ndarray, np.ndarray]:
    """-H^-1 g of the cost in the free directions, [M, B - 1], and the slope of the cost along it, [M]."""
    dx, dy = np.diff(x), np.diff(y, axis=1)
    segments = np.hypot(dx, dy)
    below = special.expit((low[:, None] - y[:, inside]) / tau)
    above = special.expit((y[:, inside] - high[:, None]) / tau)
    stretch, edge = np.diff(bends, axis=0), bends[inside]
    gradient = dy / segments @ stretch + FORCE * (above - below) @ edge
    curved = (dx**2 / segments**3)[:, :, None] * stretch
    stiff = (FORCE / tau * (below * (1.0 - below) + above * (1.0 - above)))[:, :, None] * edge
    hessian = stretch.T @ curved + edge.T @ stiff
    size = np.trace(hessian, axis1=1, axis2=2)[:, None, None]
    step = -np.linalg.solve(hessian + 1e-10 * size * np.eye(bends.shape[1]), gradient[..., None])[..., 0]
    return step, np.sum(step * gradient, axis=1)
