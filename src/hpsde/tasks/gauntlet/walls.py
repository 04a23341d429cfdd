"""Walls: the puddle world with a random wall of two to six gaps.

Start, goals, movement primitive, initial policy and return are those of the puddle task: R = -length - 50 c. The wall
is drawn from the seed: how thick it is, how high its gaps are, how far they lie apart and where. All that is not a gap
is puddle, as far up and down as one may go. A solution is a gap.
"""

from __future__ import annotations

from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from hpsde.base.checks import check_rows
from hpsde.base.draws import make_key, split
from hpsde.base.shapes import Float
from hpsde.tasks.gauntlet.known import Cell, generator
from hpsde.tasks.gauntlet.movement import MovementTask
from hpsde.tasks.gauntlet.routes import shortest_routes
from hpsde.tasks.puddle import Puddle, Wall

__all__ = ["CELLS", "RandomWall", "draw_wall", "wall_task"]

GAP_COUNTS = (2, 3, 4, 5, 6)
THICKNESSES, CENTRES = (1.6, 2.4), (2.8, 3.2)
"""Of the wall, in x."""
GAP_HEIGHTS, PUDDLE_HEIGHTS = (0.9, 2.0), (1.2, 2.0)
REGION = (-8.5, 8.5)
"""Where gaps may lie: the initial routes pass the wall between -8.5 and 9, most of them in the middle."""
USABLE = 0.01
"""The share of the initial routes that must take each gap without touching: six of 600."""
TRIALS = 2400
"""Initial routes by which a wall is judged."""
GRID = np.linspace(-5.0, 6.0, 45)
"""Goals for which the shortest routes are computed; others are interpolated."""
SEED = 141_421


class RandomWall(MovementTask, Puddle):
    """The puddle world with a wall of its own; `wall_task` draws one."""

    def __init__(self, name: str, wall: Wall) -> None:
        self.name = name
        self.wall = wall
        self.description = f"a route past puddles, by a movement primitive; {len(wall.gaps)} gaps lead through"

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """For pictures, as the puddle's: wide enough for the initial policy and the shortest routes in all contexts."""
        return np.full(10, -20.0), np.full(10, 20.0)

    def best_returns(self, contexts: Any) -> Float[np.ndarray, " N"]:
        """The return of the shortest route through the best gap.

        Among the routes that end at step 301 within 0.01 of the goal, as all good ones do. Through a gap the least
        length is convex in the goal, so that lengths interpolated between goals 0.25 apart are never too short. On the
        puddle task's own wall the mean is 0.01 below the optimum.
        """
        s = check_rows("contexts", contexts, 1)[:, 0]
        return np.max([np.interp(s, GRID, returns) for returns in self._shortest[1]], axis=0)

    @cached_property
    def _shortest(self) -> tuple[np.ndarray, np.ndarray]:
        """The shortest routes through each gap to the goals of the grid: parameters [K, 45, 10], returns [K, 45]."""
        unbent, responses = self._linear_heights(GRID[:, None])
        gaps = np.array(list(self.wall.gaps.values()))
        count = len(gaps)
        low, high = np.repeat(gaps, len(GRID), axis=0).T
        goals = np.tile(GRID, count)
        found = shortest_routes(self._x, np.tile(unbent, (count, 1)), responses, self._in_wall, low, high, goals)
        returns = self.evaluate(goals[:, None], found)
        return found.reshape(count, len(GRID), -1), returns.reshape(count, -1)

    def _through(self, gap: str, s: np.ndarray) -> np.ndarray:
        """The shortest routes through a gap. Those between two routes of the grid take it, too: gaps are convex."""
        of_gap = self._shortest[0][list(self.wall.gaps).index(gap)]
        return np.stack([np.interp(s[:, 0], GRID, numbers) for numbers in of_gap.T], axis=1)


def wall_task(name: str, gaps: int, seed: int) -> RandomWall:
    """The task of a seed: the first wall drawn of which every gap is usable."""
    rng = generator(name, seed)
    while True:
        wall = draw_wall(rng, gaps)
        if wall is not None and np.min(gap_shares(wall)) >= USABLE:
            return RandomWall(f"{name}@{seed}", wall)


def draw_wall(rng: np.random.Generator, gaps: int) -> Wall | None:
    """A wall of so many gaps, or None where they do not fit into the region."""
    centre, half = rng.uniform(*CENTRES), 0.5 * rng.uniform(*THICKNESSES)
    heights = np.empty(2 * gaps - 1)  # gap, puddle, gap, ...
    heights[::2] = rng.uniform(*GAP_HEIGHTS, gaps)
    heights[1::2] = rng.uniform(*PUDDLE_HEIGHTS, gaps - 1)
    room = REGION[1] - REGION[0] - np.sum(heights)
    if room < 0.0:
        return None
    edges = REGION[0] + rng.uniform(0.0, room) + np.append(0.0, np.cumsum(heights))
    lows, highs = edges[::2].tolist(), edges[1::2].tolist()
    puddles = tuple(zip([-np.inf, *highs], [*lows, np.inf], strict=True))
    named = {f"gap {k}": gap for k, gap in enumerate(zip(lows, highs, strict=True), start=1)}
    return Wall((centre - half, centre + half), puddles, named)


def gap_shares(wall: Wall) -> Float[np.ndarray, " K"]:
    """The shares of the initial routes that take each gap without touching a puddle."""
    x, y = np.moveaxis(initial_routes(), -1, 0)
    inside = (wall.x[0] < x[0]) & (x[0] < wall.x[1])
    lowest, highest = y[:, inside].min(axis=1), y[:, inside].max(axis=1)
    return np.array([np.mean((low <= lowest) & (highest <= high)) for low, high in wall.gaps.values()])


@cache
def initial_routes() -> Float[np.ndarray, "N 100 2"]:
    """Routes of the initial policy, always the same; the wall plays no part in them."""
    puddle = Puddle()
    keys = split(make_key(SEED))
    contexts = puddle.sample_contexts(keys[0], TRIALS)
    return puddle.routes(contexts, puddle.sample_initial(keys[1], contexts))


def _cell(gaps: int) -> Cell:
    name = f"walls-{gaps}"
    return Cell(
        name=name,
        family="movements",
        make=partial(wall_task, name, gaps),
        description=f"a route through a random wall of {gaps} gaps",
    )


CELLS: dict[str, Cell] = {cell.name: cell for cell in map(_cell, GAP_COUNTS)}
