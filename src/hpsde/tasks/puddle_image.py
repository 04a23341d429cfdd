"""The puddle world seen: a context is a picture of the wall with its gaps and of the goal.

A picture [P, P] shows y from -6.5 to 8.5, row by row from below, and x from 0 to 7, column by column. Ground is 0, a
puddle 0.5, the goal 1, and a pixel has the mean of what it covers: edges are known to a small part of a pixel. So the
true context behind a picture can be read off it (`true_contexts`), and rollouts run in it. `behind` is the same task
with the true context in place of the picture: what a learner earns less from pictures is lost by seeing these alone.

The goal's height is s ~ U(-5, 6), as in the puddle task. The true context is s where the wall is that of the puddle
task, and [s, y_1, ..., y_4] where the gaps move: their middles are those of the puddle task, each moved by
U(-0.4, 0.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hpsde.base.checks import as_numbers, check_count, check_rows
from hpsde.base.distributions import Uniform
from hpsde.base.draws import make_key
from hpsde.base.shapes import Array, Float, Int
from hpsde.errors import InputError
from hpsde.tasks.puddle import COLLISION_COST, CONTEXTS, GAP_SHARE, GAPS, PUDDLES, WALL, Puddle
from hpsde.tasks.solutions import Solution

__all__ = ["MovingGaps", "PuddleImage"]

WIDTH, BOTTOM, TOP = 7.0, -6.5, 8.5
PUDDLE, GOAL = 0.5, 1.0
GOAL_X, GOAL_HEIGHT = (5.5, 6.5), 1.0
"""The goal is a square around (6, s)."""
MOVE = 0.4
"""How far a gap may be from its place in the puddle task."""
LEAST, MOST = 16, 1024
"""Pixels in a row: with fewer, both edges of a gap may fall into one."""
EMPTY, DIFFERENT = 1e-9, 1e-6
"""Shares of a pixel: what counts as nothing, and what no picture of this task may differ by."""

MIDDLES = np.array([0.5 * (low + high) for low, high in GAPS.values()])
HALVES = np.array([0.5 * (high - low) for low, high in GAPS.values()])
_EVALUATION_SEED = 577_215_664


class MovingGaps:
    """The puddle task with gaps that move: a context is [s, y_1, ..., y_4], the goal and the middles of the gaps."""

    numpy_keys: ClassVar[bool] = True
    name: ClassVar[str] = "puddle-moving"
    context_size: ClassVar[int] = 1 + len(GAPS)
    parameter_size: ClassVar[int] = Puddle.parameter_size
    description: ClassVar[str] = "the puddle task with a wall whose gaps move from rollout to rollout"
    max_options: ClassVar[int] = Puddle.max_options
    initial_rollouts: ClassVar[int] = 3_000
    rollouts: ClassVar[int] = 10_000
    has_initial_density: ClassVar[bool] = False
    puddle: ClassVar[Puddle] = Puddle()

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """For pictures, as the puddle's."""
        return self.puddle.parameter_bounds

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The gaps, each wherever it is: an option that follows one takes it in a tenth of all contexts."""
        return tuple(
            Solution(name, partial(self._follows, k), parameters=partial(self._through, k), share=GAP_SHARE)
            for k, name in enumerate(GAPS)
        )

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n 5"]:
        """`n` goals and walls."""
        low, high = CONTEXTS.bounds
        return Uniform(np.append(low, MIDDLES - MOVE), np.append(high, MIDDLES + MOVE)).sample(key, n)

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N 10"]:
        """Parameters of the puddle task's start policy, which knows the goal alone."""
        return self.puddle.sample_initial(key, self._goals(contexts))

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """Their log density, as in the puddle task."""
        return self.puddle.log_initial(self._goals(contexts), parameters)

    def evaluate(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """R = -length - 50 c."""
        return -self._lengths(contexts, parameters) - COLLISION_COST * self.collisions(contexts, parameters)

    def evaluation_contexts(self) -> Float[np.ndarray, "200 5"]:
        """Always the same 200."""
        return self.sample_contexts(make_key(_EVALUATION_SEED), 200)

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """collision_free (1 or 0) and the length of each route, [N]."""
        free = (self.collisions(contexts, parameters) == 0).astype(float)
        return {"collision_free": free, "length": self._lengths(contexts, parameters)}

    def routes(self, contexts: Any, parameters: Any) -> Float[np.ndarray, "N 100 2"]:
        """The 100 points (x, y) of each route."""
        return self.puddle.routes(self._goals(contexts), parameters)

    def collisions(self, contexts: Any, parameters: Any) -> Int[np.ndarray, " N"]:
        """c, how many of a route's points lie in a puddle."""
        y = self._in_wall(contexts, parameters)
        low, high = self._edges(contexts)
        free = np.any((low[:, :, None] <= y[:, None]) & (y[:, None] <= high[:, :, None]), axis=1)
        return np.sum(~free & (PUDDLES[0][0] < y) & (y < PUDDLES[-1][1]), axis=1)

    def gaps(self, contexts: Any, parameters: Any) -> Int[np.ndarray, " N"]:
        """Which of the wall's gaps a route takes with all its points in the wall, from 0; -1 for none."""
        y = self._in_wall(contexts, parameters)
        low, high = self._edges(contexts)
        taken = (low <= y.min(axis=1)[:, None]) & (y.max(axis=1)[:, None] <= high)
        return np.where(taken.any(axis=1), taken.argmax(axis=1), -1)

    def _lengths(self, contexts: Any, parameters: Any) -> np.ndarray:
        return self.puddle.measures(self._goals(contexts), parameters)["length"]

    def _in_wall(self, contexts: Any, parameters: Any) -> np.ndarray:
        """The y of a route's points whose x is the wall's [N, W]."""
        route = self.routes(contexts, parameters)
        x = self.puddle.routes(np.zeros((1, 1)), np.zeros((1, self.parameter_size)))[0, :, 0]
        return route[:, (WALL[0] < x) & (x < WALL[1]), 1]

    def _goals(self, contexts: Any) -> np.ndarray:
        return check_rows("contexts", contexts, self.context_size)[:, :1]

    def _edges(self, contexts: Any) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest y of the gaps [N, 4]."""
        middles = check_rows("contexts", contexts, self.context_size)[:, 1:]
        return middles - HALVES, middles + HALVES

    def _follows(self, gap: int, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return self.gaps(contexts, parameters) == gap

    def _through(self, gap: int, contexts: np.ndarray) -> np.ndarray:
        low, high = (each[:, gap : gap + 1] for each in self._edges(contexts))
        return self.puddle.through(low, high, self._goals(contexts))


class PuddleImage:
    """The puddle task with pictures for contexts, as rows of pixels^2 numbers; see the top of the file.

    pixels: in a row and in a column of a picture. moving: the gaps are elsewhere in every picture, as `MovingGaps` has
    them.
    """

    numpy_keys: ClassVar[bool] = True
    has_initial_density: ClassVar[bool] = False
    parameter_size: ClassVar[int] = Puddle.parameter_size
    max_options: ClassVar[int] = Puddle.max_options

    def __init__(self, pixels: int = 64, moving: bool = False):
        self.pixels = check_count("pixels", pixels, LEAST)
        if self.pixels > MOST:
            raise InputError(f"pixels must be at most {MOST}; got {pixels}")
        self.moving = bool(moving)
        self.behind: Puddle | MovingGaps = MovingGaps() if moving else Puddle()
        size = "" if self.pixels == 64 else f"-{self.pixels}"
        self.name = f"puddle-image{'-moving' if moving else ''}{size}"
        self.description = f"the puddle task seen in pictures of {self.pixels} x {self.pixels}" + (
            "; its gaps move" if moving else ""
        )
        self.initial_rollouts, self.rollouts = (3_000, 10_000) if moving else (1_200, 3_000)
        height, width = (TOP - BOTTOM) / self.pixels, WIDTH / self.pixels
        self._rows, self._height = BOTTOM + height * np.arange(self.pixels + 1), height
        columns = width * np.arange(self.pixels + 1)
        self._wall, self._goal = (_covered(columns, np.reshape(x, (2, 1, 1)))[0] for x in (WALL, GOAL_X))

    @property
    def context_shape(self) -> tuple[int, int]:
        """Of one picture."""
        return self.pixels, self.pixels

    @property
    def context_size(self) -> int:
        """Numbers of one picture."""
        return self.pixels**2

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """For pictures, as the puddle's."""
        return self.behind.parameter_bounds

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The gaps, by what is behind the pictures."""
        return tuple(
            Solution(each.name, self._unseen(each.follows), parameters=self._unseen(each.parameters), share=each.share)
            for each in self.behind.solutions
        )

    def render(self, true_contexts: Any) -> Float[np.ndarray, "N P P"]:
        """Pictures of true contexts [N, 1], or [N, 5] where gaps move."""
        true = check_rows("true contexts", true_contexts, self.behind.context_size)
        middles = true[:, 1:] if self.moving else np.broadcast_to(MIDDLES, (len(true), len(MIDDLES)))
        free = np.sum([_covered(self._rows, each) for each in _intervals(middles, HALVES)], axis=0)
        goal = _covered(self._rows, _intervals(true[:, :1], np.full(1, 0.5 * GOAL_HEIGHT))[0])
        pictures = (PUDDLE * np.maximum(1.0 - free, 0.0))[:, :, None] * self._wall
        pictures += (GOAL * goal)[:, :, None] * self._goal
        return pictures

    def true_contexts(self, contexts: Any) -> Float[np.ndarray, "N T"]:
        """What is behind pictures [N, P^2] or [N, P, P] of this task; an InputError for others."""
        pictures = self._shaped(contexts)
        goal = pictures[:, :, np.argmax(self._goal)] / GOAL
        free = 1.0 - pictures[:, :, np.argmax(self._wall)] / PUDDLE
        found = [self._start(goal)[:, None] + 0.5 * GOAL_HEIGHT]
        for half in HALVES if self.moving else ():
            low = self._start(free)[:, None]
            found.append(low + half)
            free = free - _covered(self._rows, np.stack([low, low + 2.0 * half]))
        true = np.concatenate(found, axis=1)
        with np.errstate(invalid="ignore"):
            wrong = ~(np.max(np.abs(self.render(true) - pictures), axis=(1, 2), initial=0.0) <= DIFFERENT)
        if wrong.any():
            raise InputError(
                f"contexts must be pictures that {self.name} draws (`sample_contexts`, `render`), unchanged; row "
                f"{np.flatnonzero(wrong)[0]} is none ({wrong.sum()} such)"
            )
        return true

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n P2"]:
        """`n` pictures."""
        return self._pictures(self.behind.sample_contexts(key, n))

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N 10"]:
        """Parameters of the puddle task's start policy."""
        return self.behind.sample_initial(key, self.true_contexts(contexts))

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """Their log density."""
        return self.behind.log_initial(*self._seen(contexts, parameters))

    def evaluate(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """R = -length - 50 c in what is behind the pictures."""
        return self.behind.evaluate(*self._seen(contexts, parameters))

    def evaluation_contexts(self) -> Float[np.ndarray, "C P2"]:
        """Pictures of those of the task behind."""
        return self._pictures(self.behind.evaluation_contexts())

    def measures(self, contexts: Any, parameters: Any) -> Mapping[str, np.ndarray]:
        """What the task behind measures."""
        return self.behind.measures(*self._seen(contexts, parameters))

    def routes(self, contexts: Any, parameters: Any) -> Float[np.ndarray, "N 100 2"]:
        """The 100 points (x, y) of each route."""
        return self.behind.routes(*self._seen(contexts, parameters))

    def _seen(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        """What is behind the pictures, and parameters [N, 10]."""
        pictures = self._shaped(contexts)
        xi = check_rows("parameters", parameters, self.parameter_size, rows=len(pictures))
        return self.true_contexts(pictures), xi

    def _shaped(self, contexts: Any) -> np.ndarray:
        """Pictures [N, P, P]."""
        given = as_numbers("contexts", contexts)
        if given.ndim == 3 and given.shape[1:] == self.context_shape:
            given = given.reshape(len(given), self.context_size)
        return check_rows("contexts", given, self.context_size).reshape(-1, *self.context_shape)

    def _pictures(self, true: np.ndarray) -> np.ndarray:
        return self.render(true).reshape(len(true), self.context_size)

    def _start(self, covered: np.ndarray) -> np.ndarray:
        """Where the lowest interval begins of which rows are covered [N, P]; it ends in a higher row."""
        first = np.argmax(covered > EMPTY, axis=1)
        return self._rows[first + 1] - self._height * covered[np.arange(len(covered)), first]

    def _unseen(self, function: Callable[..., Any] | None) -> Any:
        """A function of true contexts, and more, as one of pictures."""
        if function is None:
            return None
        return lambda contexts, *others: function(self.true_contexts(contexts), *others)


def _intervals(middles: np.ndarray, halves: np.ndarray) -> list[np.ndarray]:
    """Ends [2, N, 1] of intervals with these middles [N, K], one after the other."""
    return [
        np.stack([middles[:, k : k + 1] - half, middles[:, k : k + 1] + half]) for k, half in enumerate(halves.tolist())
    ]


def _covered(edges: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """The share [N, P] of the pixels between edges [P + 1] that intervals with these ends [2, N, 1] cover."""
    return np.minimum(np.diff(np.clip(edges[None], *interval), axis=1) / (edges[1] - edges[0]), 1.0)
