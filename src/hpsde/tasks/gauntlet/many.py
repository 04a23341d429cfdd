"""Many parameters: two broad bumps where all parameters matter, or only three directions among them.

The first parameters are standard Gaussian, and the bumps lie about as far out as these, on nearly opposite sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hpsde.base.distributions import Gaussian
from hpsde.tasks.gauntlet.known import Cell
from hpsde.tasks.gauntlet.peaks import Peak, peak_cell

__all__ = ["CELLS"]

LARGEST_ANGLE = np.pi / 6.0
"""How far the second bump may be from opposite to the first one."""


def two_bumps(
    axes: np.ndarray, width: float, radii: np.ndarray, tolerance: float, rng: np.random.Generator
) -> list[Peak]:
    """Two bumps at these radii [2] in the directions `axes` [D, M], and none in the others.

    z = |(xi - c) axes| / width.
    """
    one, other = np.linalg.qr(rng.normal(size=(axes.shape[1], 2)))[0].T
    angle = rng.uniform(0.0, LARGEST_ANGLE)
    directions = np.stack([one, np.sin(angle) * other - np.cos(angle) * one])
    centres = (radii[:, None] * directions) @ axes.T
    return [Peak(_point(centre), axes / width, tolerance=tolerance) for centre in centres]


def three_matter(size: int, rng: np.random.Generator) -> list[Peak]:
    """R depends on three orthonormal directions: widths 0.9, centres 1.4 to 1.6 from the origin, 3 widths apart."""
    axes, _ = np.linalg.qr(rng.normal(size=(size, 3)))
    return two_bumps(axes, 0.9, rng.uniform(1.4, 1.6, 2), 1.0, rng)


def all_matter(size: int, rng: np.random.Generator) -> list[Peak]:
    """R = max_k exp(-|xi - c_k|^2 / (2 D 0.7^2)), |c_k| = 1.1 to 1.2 sqrt(D); followed where R_k >= 0.8."""
    radii = np.sqrt(size) * rng.uniform(1.1, 1.2, 2)
    return two_bumps(np.eye(size), 0.7 * np.sqrt(size), radii, float(np.sqrt(-2.0 * np.log(0.8))), rng)


def _point(centre: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda contexts: np.broadcast_to(centre, (len(contexts), len(centre)))


def _cell(size: int, which: str) -> Cell:
    draw = three_matter if which == "three" else all_matter
    description = f"2 bumps in {size} parameters, of which {which} matter, no context"
    initial = Gaussian(np.zeros(size), 1.0)
    return peak_cell(f"many-{size}-{which}", "many", description, partial(draw, size), initial=initial)


SIZES = ((5, "all"), (10, "all"), (20, "all"), (10, "three"), (20, "three"), (30, "three"))
CELLS = {cell.name: cell for cell in (_cell(size, which) for size, which in SIZES)}
