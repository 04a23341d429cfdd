"""Climbs: without a context a solution is a point, and a few rollouts lead from a good one to the top of its hill.

A hill is a rollout with no better one within the distance between neighbouring first rollouts. Beside it the return is
modelled by a small Gaussian process on the nearest rollouts: no noise, a squared-exponential kernel whose length and
signal are the likeliest. The next rollout goes where its mean is highest, within reach: about as far as the nearest
rollouts are. So steps become shorter by themselves as rollouts gather round a top, and nothing but the rollouts need
be remembered. A hill is climbed until its model promises nothing more. It is left where even the promised top is no
solution, or where the model leads over to another hill; and of two hills without a measured valley one is none.

Noise would be climbed like a hill. So at first two rollouts are repeated, and there are climbs only if the returns are
the same. Rollouts farther apart than a standard deviation of the first ones have no local models: with 600 of them
there are climbs with up to five parameters.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.later import Later
from hpsde.steps import ways

optimize = Later("scipy.optimize")
spatial = Later("scipy.spatial")
special = Later("scipy.special")


SIDE = 2.0 * np.sqrt(3.0)  # of a cube in which uniform numbers have a deviation of 1
NEAREST = 3  # rollouts for every number of a quadratic that a local model is fitted to
REACH = 1.5  # of the distance to the rollout that makes the nearest ones a simplex
BESIDE = 0.75  # of the spacing: rollouts so near a hill's highest are beside it
SAME = 0.3  # of the spacing: where the model leads so near another hill, it is that one
LENGTHS = (0.35, 0.7, 1.4, 2.8, 5.6)  # of the kernel, in distances to the nearest rollouts that fix a quadratic
LIKELIER = 2.5  # nats by which a length of its own for one number must be
JITTER = 1e-12  # of the kernel's variance
STARTS = 60  # places at which a model is looked at before it is climbed,
WALKS, STRIDE = 8, 0.7  # steps of a walk on models at most, and how long each is, in spacings
ENOUGH = 1e-8  # of the returns' range from typical to best: less is not worth a rollout
FINEST = 1e-12  # of it: for less there is no rollout at all
TOGETHER = 1e-9  # rollouts so near one another are in one place
POLISHED = 10  # times D + 1 rollouts as good as the highest up to ENOUGH: then no more are asked for
CLOSE = 1e-4  # of it: where no more is lost, rollouts make sure of a top
NEARLY = 1e-2  # of it: where no more is to gain, a hill is known
CHECKED, ALONE = 60, 0.1  # rollouts that models are checked by, and how far from others each is, in spacings
REPEATED = 1e-9  # of it, by which a repeated rollout may differ without being noise
DOUBT = 2.0  # deviations of the model by which a hill may be higher
MIDDLE, NARROW = (0.25, 0.75), 0.25  # part of the way between two tops, and how far from it, in lengths of it
REMEMBERED = 20_000  # looks at models, before all are forgotten
NEIGHBOURS = 3  # higher hills next to each that it is compared with
# A hill: not known yet, known up to NEARLY, no solution, another one's, known but perhaps another one's.
NEW, KNOWN, LOW, JOINED, UNSURE = range(5)


class Seen(NamedTuple):
    """What a local model about a place shows: where it is highest within reach, relative to the place [D], how high
    that is, and its standard deviation there; its kernel's length and signal; and whether it would go on rising.
    """

    step: np.ndarray
    height: float
    deviation: float
    length: float
    signal: float
    goes_on: bool


class Ground(NamedTuple):
    """Rollouts x [N, D] with returns y [N], the distance between first ones, typical return, bounds [D] of x.

    looks: what local models have shown so far, by the rollouts that they were of; most are the same the next time.
    """

    x: np.ndarray
    y: np.ndarray
    spacing: float
    typical: float
    low: np.ndarray
    high: np.ndarray
    looks: dict[bytes, Seen]

    @property
    def scale(self) -> float:
        """How far the best return is above the typical one."""
        return max(float(self.y.max()) - self.typical, 1e-300)


class Hill(NamedTuple):
    """The row of its highest rollout, what is known of it, the rollout to do next [D] (None: none), how far from
    the highest rollout its top may be, and how near to it no more is lost than a rollout is worth.
    """

    row: int
    state: int
    next: np.ndarray | None = None
    width: float = 0.0
    close: float = 0.0


class Local:
    """A Gaussian process on u [n, D] and y [n], with the likeliest mean and signal, and nearly the likeliest lengths:
    the likeliest of LENGTHS for all numbers, then for one number after the other shorter or longer ones.
    """

    def __init__(self, u: np.ndarray, y: np.ndarray) -> None:
        self.u, self.middle, self.unit = u, float(y.mean()), float(y.std()) + 1e-300
        z = np.stack([(y - self.middle) / self.unit, np.ones(len(y))], axis=1)
        halves, self.ridge = -0.5 * (u[:, None] - u[None]) ** 2, JITTER * np.eye(len(y))
        self.likelihood, self.lengths = -np.inf, np.full(u.shape[1], LENGTHS[0])
        self.mean, self.variance, self.alpha = 0.0, 0.0, np.zeros(len(y))
        self.L: np.ndarray = np.eye(len(y))
        for length in LENGTHS:
            self._try(halves, z, np.full(u.shape[1], length))
        alone = np.eye(u.shape[1]) > 0.0
        for factors in np.concatenate([np.where(alone, 0.5, 1.0), np.where(alone, 2.0, 1.0)]) if len(alone) > 1 else ():
            while self._try(halves, z, factors * self.lengths, LIKELIER):
                pass

    def _try(self, halves: np.ndarray, z: np.ndarray, lengths: np.ndarray, margin: float = 0.0) -> bool:
        """Take these lengths [D] where they are likelier; whether they are."""
        try:
            L = np.linalg.cholesky(np.exp(halves @ lengths**-2.0) + self.ridge)
        except np.linalg.LinAlgError:  # rollouts in one place
            return False
        a, one = np.linalg.solve(L, z).T
        mean = (one @ a) / (one @ one)
        left = a - mean * one
        variance = max(float(left @ left) / len(z), 1e-300)
        likelihood = -0.5 * len(z) * np.log(variance) - np.log(np.diagonal(L)).sum()
        if likelihood <= self.likelihood + margin:
            return False
        self.likelihood, self.lengths, self.L, self.mean, self.variance = likelihood, lengths, L, mean, variance
        self.alpha = np.linalg.solve(L.T, left)
        return True

    def _kernel(self, places: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * (places[:, None] - self.u[None]) ** 2 @ self.lengths**-2.0)

    def heights(self, places: np.ndarray) -> np.ndarray:
        """The modelled return [M] at places [M, D]."""
        return self.middle + self.unit * (self.mean + self._kernel(places) @ self.alpha)

    def deviation(self, place: np.ndarray) -> float:
        """Its standard deviation at one place."""
        known = np.linalg.solve(self.L, self._kernel(place[None])[0])
        return self.unit * float(np.sqrt(max(1.0 - float(known @ known), 0.0) * self.variance))

    def top(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Where it is highest between low [D] and high [D]."""
        places = np.concatenate([np.zeros((1, len(low))), low + (high - low) * spread(len(low), STARTS)])
        places = np.clip(places, low, high)
        best = places[np.argmax(self.heights(places))]

        def fall(place: np.ndarray) -> tuple[float, np.ndarray]:
            away = self.u - place
            share = np.exp(-0.5 * away**2 @ self.lengths**-2.0) * self.alpha
            return -float(share.sum()), -(share @ away) * self.lengths**-2.0

        options = {"maxiter": 30, "ftol": 1e-16, "gtol": 1e-13}
        return optimize.minimize(
            fall, best, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)), options=options
        ).x


@functools.cache
def spread(size: int, count: int) -> np.ndarray:
    """Places [count, size] spread over the unit cube, always the same."""
    from scipy.stats import qmc  # slow to load

    return qmc.Halton(size, scramble=False).random(count + 1)[1:]


def spacing_of(rollouts: int, size: int) -> float:
    """Distance between neighbouring ones of so many rollouts with `size` parameters, in standard units."""
    return SIDE * max(rollouts, 1) ** (-1.0 / size)


def repeats(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Rows of x [N, D] to do again, which shows whether returns are noisy, and by how much repeated ones differ.

    The best rollout and the middle one; none once two were repeated.
    """
    _, first, group = np.unique(x, axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    lowest, highest = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(lowest, group, y)
    np.maximum.at(highest, group, y)
    twice = np.bincount(group) > 1
    differ = float(np.max((highest - lowest)[twice], initial=0.0))
    order = np.argsort(-y, kind="stable")
    missing = max(2 - int(twice.sum()), 0)
    return np.array([i for i in order[[0, len(order) // 2]] if not twice[group[i]]], dtype=int)[:missing], differ


def find_hills(ground: Ground, least: float, depth: float, wanted: int) -> list[Hill]:
    """The hills, the highest first, until `wanted` of them have a rollout to do next.

    A solution's return is at least `least`; a valley between two is deeper than `depth`.
    """
    tree = spatial.KDTree(ground.x)
    doubt = DOUBT * misjudged(ground, tree)
    hills: list[Hill] = []
    going = 0
    for row in _summits(ground, tree):
        if going >= wanted:
            break
        hill = _look(ground, tree, row, least, doubt, hills)
        if hill.state == KNOWN and ground.y[row] >= least:
            hill = _apart(ground, hill, hills, depth)
        hills.append(hill)
        going += hill.next is not None
    return hills


def _summits(ground: Ground, tree: Any) -> list[int]:
    """Rows of rollouts better than the typical one with no better one within the spacing, the best first."""
    order = np.argsort(-ground.y, kind="stable")
    rank = np.argsort(order, kind="stable")
    order = order[ground.y[order] >= ground.typical]
    near = tree.query_ball_point(ground.x[order], ground.spacing)
    return [int(i) for i, others in zip(order, near, strict=True) if rank[others].min() == rank[i]]


def _quadratic_size(size: int) -> int:
    return (size + 1) * (size + 2) // 2


def _nearest(tree: Any, place: np.ndarray, skip: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Distances and rows of the rollouts that a local model about a place is of, without the `skip` nearest, and its
    unit of distance.
    """
    numbers = _quadratic_size(len(place))
    distance, rows = (each[skip:] for each in tree.query(place, min(NEAREST * numbers + skip, tree.n)))
    return distance, rows, max(float(distance[min(numbers, len(distance) - 1)]), 1e-12)


def chances(x: np.ndarray, y: np.ndarray, places: np.ndarray, least: float) -> np.ndarray:
    """How likely the return at places [M, D] is to be `least` or more [M], each by the model about it of the rollouts
    x [N, D] with returns y [N].
    """
    tree, chance = spatial.KDTree(x), np.zeros(len(places))
    for i, place in enumerate(places):
        _, rows, unit = _nearest(tree, place)
        height, deviation = _predicted(x[rows], y[rows], place, unit)
        chance[i] = special.ndtr((height - least) / max(deviation, 1e-300))
    return chance


def misjudged(ground: Ground, tree: Any) -> float:
    """How many standard deviations rollouts lie off what the models about them say that are of the others alone: the
    root of the mean square over CHECKED of them, at least 1. Rollouts beside others would be too easy to tell.
    """
    z = [1.0]
    for i in np.unique(np.linspace(0, len(ground.y) - 1, CHECKED).astype(int)):
        distance, rows, unit = _nearest(tree, ground.x[i], skip=1)
        if distance[0] >= ALONE * ground.spacing:
            height, deviation = _predicted(ground.x[rows], ground.y[rows], ground.x[i], unit)
            z.append((float(ground.y[i]) - height) / max(deviation, ENOUGH * ground.scale))
    return max(float(np.sqrt(np.mean(np.square(z)))), 1.0)


def _predicted(x: np.ndarray, y: np.ndarray, place: np.ndarray, unit: float) -> tuple[float, float]:
    """The return at a place and its standard deviation by a local model of the rollouts x [n, D] with returns y [n]."""
    model, here = Local((x - place) / unit, y), np.zeros(len(place))
    return float(model.heights(here[None])[0]), model.deviation(here)


def _see(ground: Ground, tree: Any, place: np.ndarray, reach: float | None) -> tuple[Seen, float, np.ndarray]:
    """What the model about a place [D] shows, how far it looks, and the distances of the nearest rollouts.

    It looks as far as `reach`, or where that is None about as far as the nearest rollouts are.
    """
    size = len(place)
    distance, rows, unit = _nearest(tree, place)
    if reach is None:
        reach = min(REACH * max(float(distance[min(size + 1, len(distance) - 1)]), 1e-12), ground.spacing)
    key = b"".join(each.tobytes() for each in (place, np.float64(reach), ground.x[rows], ground.y[rows]))
    if key not in ground.looks:
        if len(ground.looks) >= REMEMBERED:
            ground.looks.clear()
        low, high = (each / unit for each in _box(ground, place, reach))
        model = Local((ground.x[rows] - place) / unit, ground.y[rows])
        at = model.top(low, high)
        edge = (at <= low * (1.0 - 1e-9)) & (low * unit <= -0.99 * reach)
        edge |= (at >= high * (1.0 - 1e-9)) & (high * unit >= 0.99 * reach)
        ground.looks[key] = Seen(
            step=unit * at,
            height=float(model.heights(at[None])[0]),
            deviation=model.deviation(at),
            length=unit * float(model.lengths.min()),
            signal=model.unit * float(np.sqrt(model.variance)),
            goes_on=bool(edge.any()),
        )
    return ground.looks[key], reach, distance


def _box(ground: Ground, place: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """How far one may go from a place: no farther than `reach` and the bounds [D] each."""
    return np.maximum(-reach, np.minimum(ground.low - place, 0.0)), np.minimum(
        reach, np.maximum(ground.high - place, 0.0)
    )


def _look(ground: Ground, tree: Any, row: int, least: float, doubt: float, higher: list[Hill]) -> Hill:
    """What the rollouts beside a summit say; where there are hardly any, a model is in doubt by `doubt` deviations."""
    place, size = ground.x[row], ground.x.shape[1]
    beside = tree.query_ball_point(place, BESIDE * ground.spacing)
    if len(beside) < size + 2:
        seen, *_ = _see(ground, tree, place, STRIDE * ground.spacing)
        if seen.height + doubt * seen.deviation < least:
            return Hill(row, LOW)
        if _leads_to(ground, tree, place, higher):
            return Hill(row, JOINED)
        return Hill(row, NEW, _apart_from(ground, place, ground.x[beside], 0.5 * ground.spacing), ground.spacing)
    seen, reach, _ = _see(ground, tree, place, None)
    gain = max(seen.height - float(ground.y[row]), 0.0)
    way = seen.length * float(np.sqrt(2.0 / max(seen.signal, 1e-150)))  # on which as much is lost, squared, as 1
    width, close = (min(way * float(np.sqrt(each)), reach) for each in (gain, ENOUGH * ground.scale))
    top = np.clip(place + seen.step, ground.low, ground.high)
    step = top if gain > FINEST * ground.scale and float(tree.query(top)[0]) > TOGETHER else None
    good = np.array(beside)[ground.y[beside] >= ground.y[row] - ENOUGH * ground.scale]
    as_good = len(np.unique(ground.x[good], axis=0))  # one that was repeated has gained nothing by that
    if as_good > size + 1:
        # Whatever the model promises, the last rollouts have gained nothing that is worth one. A few more may.
        going_on = step is not None and as_good <= POLISHED * (size + 1)
        return Hill(row, KNOWN, step if going_on else None, min(width, close) if going_on else 0.0, close)
    if gain <= ENOUGH * ground.scale:
        # By fewer rollouts close to a top, none of them as good, a model may promise nothing by chance.
        near = min(way * float(np.sqrt(CLOSE * ground.scale)), BESIDE * ground.spacing)
        others = tree.query_ball_point(place, near)
        if len(others) < size + 2 or as_good < 2:
            near = near if len(others) < size + 2 else max(close, 100.0 * TOGETHER)
            return Hill(row, KNOWN, _apart_from(ground, place, ground.x[others], near), width, close)
        return Hill(row, KNOWN, step, width, close)
    if not seen.goes_on and seen.height + DOUBT * seen.deviation < least:
        return Hill(row, LOW)
    # A step along a diagonal is longer than the spacing: a better rollout that lies as near is the hill's.
    near = tree.query_ball_point(place, float(np.linalg.norm(seen.step)) * (1.0 + 1e-9))
    if ground.y[near].max() > ground.y[row]:
        return Hill(row, JOINED)
    state = NEW if seen.goes_on or gain > NEARLY * ground.scale else KNOWN
    return Hill(row, state, top, width, close)


def _leads_to(ground: Ground, tree: Any, place: np.ndarray, higher: list[Hill]) -> bool:
    """Whether a walk uphill on local models leads to another hill."""
    tops = np.array([ground.x[each.row] for each in higher if each.state != JOINED])
    if not len(tops):
        return False
    for _ in range(WALKS):
        seen, *_ = _see(ground, tree, place, STRIDE * ground.spacing)
        place = np.clip(place + seen.step, ground.low, ground.high)
        if not seen.goes_on:
            break
    return bool(np.linalg.norm(tops - place, axis=1).min() < SAME * ground.spacing)


def _apart_from(ground: Ground, place: np.ndarray, known: np.ndarray, reach: float) -> np.ndarray:
    """The place within `reach` of which least is known by the rollouts `known` [n, D]."""
    low, high = _box(ground, place, reach)
    places = low + (high - low) * spread(len(place), STARTS)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.sum((a[:, None] - b[None]) ** 2, axis=-1) / (1.5 * reach) ** 2)

    known = known - place
    share = kernel(places, known)
    K = kernel(known, known) + 1e-9 * np.eye(len(known))
    left = 1.0 - np.sum(share * np.linalg.solve(K, share.T).T, axis=1)
    return place + places[np.argmax(left)]


def _apart(ground: Ground, hill: Hill, higher: list[Hill], depth: float) -> Hill:
    """A known hill beside the higher ones next to it: one that has no valley to one of them, or from which rollouts
    lead round it, is joined to it; and where no rollout tells, one half-way between the two will.
    """
    others = [each.row for each in higher if each.state == KNOWN]
    place, height = ground.x[hill.row], float(ground.y[hill.row])
    distance = np.linalg.norm(ground.x[others] - place, axis=1)
    for other in np.argsort(distance, kind="stable")[:NEIGHBOURS]:
        way = ground.x[others[other]] - place
        length = max(float(distance[other]), 1e-300)
        away = ground.x - place
        share = away @ way / length**2
        aside = np.linalg.norm(away - share[:, None] * way, axis=1) / length
        between = (share > MIDDLE[0]) & (share < MIDDLE[1]) & (aside < NARROW)
        if not between.any():
            return hill._replace(state=UNSURE, next=place + 0.5 * way)
        if ground.y[between].min() > height - depth or lead_to(ground, hill.row, others[other], depth):
            return Hill(hill.row, JOINED)
    return hill


def lead_to(ground: Ground, row: int, other: int, depth: float) -> bool:
    """Whether rollouts lead from one to a higher one and none of them, nor a place between two of them by the model
    about it, is lower than the first by `depth`.
    """
    tree, least = spatial.KDTree(ground.x), float(ground.y[row]) - depth
    rows = np.flatnonzero(ground.y >= least)

    def is_high(place: np.ndarray) -> bool:
        _, near, unit = _nearest(tree, place)
        return _predicted(ground.x[near], ground.y[near], place, unit)[0] >= least

    start, end = np.searchsorted(rows, [row, other])
    return ways.leads(ground.x[rows], int(start), int(end), ground.spacing, is_high)
