"""Regions: several climbs in many dimensions, started far from one another.

The first region climbs from the best of the first rollouts and of places uphill on the plane through them (slopes.py),
the second from the best of those that are farther from its top than most. The others start far out along the directions
that the return is most sensitive to, one for each direction and sign. At such a start the far coordinate is held, and a
few rollouts seek the best place among the other directions: a start that stays much worse than where all began is none.
Then a region climbs in all parameters (region_models.py), at first on its side: no less than SIDE of the far coordinate
is left, so that it does not slide into the others' hills. It grows with success and shrinks with failure; once it is
small, its top is settled, and it hops: the best of a few places about the top, along the directions, is where it climbs
on. So it leaves tops that are none but for want of a longer step. A hop that comes nearer to another's top is in vain.

Of two settled tops up to three rollouts on the straight way between them tell whether they are one hill: where none of
them is lower than both, the region of the lower one ends, and another start takes its place. All regions get the same
number of rollouts. Once each has had SHARE for each parameter, there are two more.
"""

from __future__ import annotations

import numpy as np

from hpsde.steps import region_models, slopes
from hpsde.steps.region_state import (
    BETWEEN,
    LINE,
    NOBODY,
    SLOPES,
    Regions,
    Terrain,
    are_busy,
    begin,
)
from hpsde.steps.region_ways import joined

NEAREST, FEWEST_NEAREST = 5, 100  # rollouts of a local model, for each parameter, and at least
STEP = 3  # a region's rollouts at a time are the parameters by this
CHUNKS = 3  # times as many are proposed, for who asks for more at once
AHEAD = 2  # times as many rollouts as came are proposed at least
PATIENCE = 2  # times that many without success, and the region shrinks by half
WINS = 3  # successes one after another, and it grows to the double
FIRST, SMALLEST, LARGEST = 0.4, 0.06, 1.6  # half the side of a region, in deviations of the first rollouts
HELD, REACH = 4, 1.5  # rollouts with the far coordinate held, for each direction; half the side of that region at first
SIDE = 0.5  # of the far coordinate, that a region keeps until its top is settled
CLOSED = 0.1  # of what the best place is above the typical return, that a start may be worse
HOP = 0.2  # how far hops go, in sqrt(D)
FIRM = 5  # rollouts for each parameter after which a top is compared with others, whether it is settled or not
TOGETHER = 6  # regions at first
SHARE = 20  # rollouts for each parameter that each region has had before there are more
GAIN = 1e-6  # of it: a success gains more
WAITED = 3  # learning steps without one of the rollouts that are waited for


def advance(ground: Terrain, last: Regions | None) -> Regions:
    """What is known after these rollouts, and what to ask for next, those of the regions that have had least first."""
    regions = begin(ground.x) if last is None else _told(ground, last)
    enough = AHEAD * (len(ground.y) - (0 if last is None else len(last.owner)))
    if _missing(ground, line := _line(ground, regions)).any() and regions.waited[0] < WAITED:
        return _ask(regions, [(LINE, line[_missing(ground, line)])])
    if not len(regions.start):
        regions = _start(regions, 0, _best_first(ground, regions, line), FIRST)
    wanted = slopes.places(ground.x[_best_first(ground, regions, line)], ground.low, ground.high)
    flat = wanted.reshape(-1, ground.x.shape[1])
    missing = _missing(ground, flat)
    if missing.any() and regions.waited[1] < WAITED:
        regions = _elsewhere(ground, regions)
        climbing, measuring = _climbing(ground, regions, None, enough), [(SLOPES, flat[missing])]
        return _ask(regions, [*measuring, *climbing] if np.all(regions.top >= 0) else [*climbing, *measuring])
    axes = slopes.directions(wanted, slopes.known(ground.x, flat), ground.y)
    origin = ground.x[_best_first(ground, regions, line)]
    regions = _elsewhere(ground, _released(ground, regions, origin, len(axes)))
    regions, between = joined(ground, regions)
    regions = _more(ground, regions, axes)
    return _ask(regions, [(BETWEEN, between), *_climbing(ground, regions, (origin, axes), enough)])


def _line(ground: Terrain, regions: Regions) -> np.ndarray:
    first = slice(regions.begun)
    return slopes.line(ground.x[first], ground.y[first], ground.low, ground.high)


def _best_first(ground: Terrain, regions: Regions, line: np.ndarray) -> int:
    """The row of the best of the first rollouts and of those on the line."""
    rows = np.concatenate([np.arange(regions.begun), slopes.known(ground.x, line)])
    rows = rows[rows >= 0]
    return int(rows[np.argmax(ground.y[rows])])


def _missing(ground: Terrain, places: np.ndarray) -> np.ndarray:
    return slopes.known(ground.x, places) < 0


def _ask(regions: Regions, asked: list[tuple[int, np.ndarray]]) -> Regions:
    """Ask for the places, in this order; a region's after the first chunk come last."""
    size = max(1, -(-regions.asked.shape[1] // STEP))
    first = [(who, part[:size] if who >= 0 else part) for who, part in asked]
    later = [(who, part[size:]) for who, part in asked if who >= 0]
    parts = [(who, part) for who, part in (*first, *later) if len(part)]
    none = np.zeros((0, regions.asked.shape[1]))
    return regions._replace(
        asked=np.concatenate([none, *(part for _, part in parts)]),
        asked_of=np.concatenate([np.zeros(0, dtype=int), *(np.full(len(part), who) for who, part in parts)]),
    )


def _told(ground: Terrain, last: Regions) -> Regions:
    """The regions after the rollouts that are new."""
    new = np.arange(len(last.owner), len(ground.y))
    owner = np.full(len(new), NOBODY)
    if len(new) and len(last.asked):
        match = slopes.known(last.asked, ground.x[new])
        owner[match >= 0] = last.asked_of[match[match >= 0]]
    waited = last.waited.copy()
    for stage, who in enumerate((LINE, SLOPES)):
        if len(new) and who in last.asked_of[:1] and waited[stage] < WAITED:
            waited[stage] = 0 if who in owner else waited[stage] + 1
    regions = last._replace(owner=np.concatenate([last.owner, owner]), waited=waited)
    regions = regions._replace(
        **{name: getattr(regions, name).copy() for name in ("top", "centre", "length", "wins", "tried", "vain")}
    )
    for region in np.unique(owner[owner >= 0]):
        if last.ended[region]:
            continue
        _climbed(ground, regions, int(region), new[owner == region])
    return regions


def _climbed(ground: Terrain, regions: Regions, region: int, rows: np.ndarray) -> None:
    """Grow, shrink and move a region, in place, after its new rollouts."""
    size = max(1, -(-ground.x.shape[1] // STEP))
    best = int(rows[np.argmax(ground.y[rows])])
    centre = regions.centre[region]
    if centre < 0 or ground.y[best] > ground.y[centre] + GAIN * ground.scale:
        regions.wins[region] += centre >= 0
        regions.centre[region], regions.tried[region] = best, 0
    else:
        regions.wins[region] = 0
        regions.tried[region] += len(rows)
        if ground.y[best] > ground.y[centre]:
            regions.centre[region] = best
    if regions.vain[region] >= 0 and regions.centre[region] >= 0 and _strayed(ground, regions, region):
        _hop_on(regions, region, int(regions.vain[region]) + 1)
        return
    if regions.wins[region] >= WINS:
        regions.length[region], regions.wins[region] = min(2.0 * regions.length[region], LARGEST), 0
    if regions.tried[region] >= PATIENCE * size:
        regions.length[region], regions.tried[region] = 0.5 * regions.length[region], 0
    if not regions.held[region]:
        _settle(ground, regions, region)


def _strayed(ground: Terrain, regions: Regions, region: int) -> bool:
    """Whether a hop has come nearer to another region's top than to its own."""
    others = np.flatnonzero((regions.top >= 0) & ~regions.ended & (np.arange(len(regions.top)) != region))
    away = np.linalg.norm(ground.x[regions.top] - ground.x[regions.centre[region]], axis=1)
    return bool(np.any(away[others] < away[region]))


def _hop_on(regions: Regions, region: int, vain: int) -> None:
    """Hop anew from the top, in place."""
    regions.vain[region], regions.centre[region], regions.length[region] = vain, -1, FIRST
    regions.wins[region] = regions.tried[region] = 0


def _settle(ground: Terrain, regions: Regions, region: int) -> None:
    """Take the best place for the top, in place, where the region has become small, or has none for long."""
    top, centre = regions.top[region], regions.centre[region]
    small = regions.length[region] < SMALLEST
    gained = top < 0 or ground.y[centre] > ground.y[top] + GAIN * ground.scale
    free = small and regions.vain[region] < 0 and regions.start[region] != 0
    if small:
        _hop_on(regions, region, 0 if gained else int(regions.vain[region]) + 1)
    if free:  # of its side: it climbs on
        regions.centre[region] = centre
    if gained and (small or (top < 0 and np.sum(regions.owner == region) >= FIRM * ground.x.shape[1])):
        regions.top[region] = centre


def _start(regions: Regions, start: int, centre: int, length: float) -> Regions:
    """One more region."""

    def more(values: np.ndarray, value: object) -> np.ndarray:
        return np.append(values, np.array(value, dtype=values.dtype))

    return regions._replace(
        start=more(regions.start, start),
        held=more(regions.held, start != 0),
        ended=more(regions.ended, False),
        top=more(regions.top, -1),
        centre=more(regions.centre, centre),
        length=more(regions.length, length),
        wins=more(regions.wins, 0),
        tried=more(regions.tried, 0),
        vain=more(regions.vain, -1),
    )


def _elsewhere(ground: Terrain, regions: Regions) -> Regions:
    """A second region, once the first one has a top: from the best of the first rollouts that are farther from it than
    most are.
    """
    if len(regions.start) != 1 or regions.top[0] < 0:
        return regions
    away = np.linalg.norm(ground.x[: regions.begun] - ground.x[regions.top[0]], axis=1)
    far = np.flatnonzero(away >= np.median(away))
    return _start(regions, 0, int(far[np.argmax(ground.y[far])]), FIRST)


def _released(ground: Terrain, regions: Regions, origin: np.ndarray, count: int) -> Regions:
    """Regions that have found the best place at their far coordinate climb in all parameters, or end."""
    held, ended, length = regions.held.copy(), regions.ended.copy(), regions.length.copy()
    tried, wins = regions.tried.copy(), regions.wins.copy()
    height = float(ground.y[slopes.known(ground.x, origin[None])[0]])
    for region in np.flatnonzero(held & ~ended):
        done = int(np.sum(regions.owner == region))
        best = float(ground.y[regions.centre[region]]) if regions.centre[region] >= 0 else -np.inf
        lost = height - best
        if done >= HELD * count or (2 * done >= HELD * count and lost > 0.5 * (height - ground.typical)):
            ended[region] = lost > CLOSED * (height - ground.typical)
            held[region] = bool(ended[region])
            length[region], tried[region], wins[region] = FIRST, 0, 0
    return regions._replace(held=held, ended=ended, length=length, tried=tried, wins=wins)


def _more(ground: Terrain, regions: Regions, axes: np.ndarray) -> Regions:
    """More regions, as long as there are too few and a direction is left."""
    count, size = 2 * len(axes), ground.x.shape[1]
    while True:
        live = np.flatnonzero(are_busy(regions))
        had = min((int(np.sum(regions.owner == region)) for region in live), default=0)
        begun = int(np.sum(regions.start != 0))
        if begun >= count or len(live) >= TOGETHER + 2 * (had // (SHARE * size)):
            return regions
        direction, sign = begun // 2 + 1, 1 - 2 * (begun % 2)
        regions = _start(regions, sign * direction, -1, REACH)


def _climbing(
    ground: Terrain, regions: Regions, known: tuple[np.ndarray, np.ndarray] | None, enough: int
) -> list[tuple[int, np.ndarray]]:
    """What regions ask for, those that have had least first, until it is enough; with the origin and the directions,
    once known.
    """
    live = np.flatnonzero(are_busy(regions))
    had = [int(np.sum(regions.owner == region)) for region in live]
    asked: list[tuple[int, np.ndarray]] = []
    for region in live[np.argsort(had, kind="stable")].tolist():
        if sum(len(places) for _, places in asked) >= enough:
            break
        rng = np.random.default_rng([len(ground.y), region])
        if regions.held[region] and known is not None:
            asked.append((region, _far(ground, regions, region, *known, rng)))
        elif regions.centre[region] < 0:
            asked.append((region, _hops(ground, regions, region, known, rng)))
        else:
            asked.append((region, _near(ground, regions, region, known, rng)))
    return asked


def _count(ground: Terrain) -> int:
    return CHUNKS * max(1, -(-ground.x.shape[1] // STEP))


def _near(
    ground: Terrain,
    regions: Regions,
    region: int,
    known: tuple[np.ndarray, np.ndarray] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """The next places of a climb in all parameters; until its top is settled, on the side where it started."""
    centre = ground.x[regions.centre[region]]
    distance = np.linalg.norm(ground.x - centre, axis=1)
    nearest = np.argsort(distance, kind="stable")[: max(NEAREST * len(centre), FEWEST_NEAREST)]
    bounds, length = (ground.low, ground.high), float(regions.length[region])
    x, y, count = ground.x[nearest], ground.y[nearest], _count(ground)
    places = region_models.next_places(x, y, centre, length, bounds, count, rng)
    start = int(regions.start[region])
    if known is None or start == 0 or regions.vain[region] >= 0:
        return places
    origin, axes = known
    side = np.sign(start) * axes[abs(start) - 1]
    lacking = np.maximum(SIDE * slopes.FAR * np.sqrt(len(centre)) - (places - origin) @ side, 0.0)
    return np.clip(places + lacking[:, None] * side, ground.low, ground.high)


def _hops(
    ground: Terrain,
    regions: Regions,
    region: int,
    known: tuple[np.ndarray, np.ndarray] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Places about a settled top, in the span of the directions; of all parameters, where no slope has shown any."""
    top, count = ground.x[regions.top[region]], _count(ground)
    axes = np.eye(len(top)) if known is None or not len(known[1]) else known[1]
    away = rng.normal(size=(count, len(axes)))
    away *= HOP * np.sqrt(len(top)) * rng.uniform(0.5, 1.5, (count, 1)) / np.linalg.norm(away, axis=1)[:, None]
    return np.clip(top + away @ axes, ground.low, ground.high)


def _far(
    ground: Terrain, regions: Regions, region: int, origin: np.ndarray, axes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The next places with the far coordinate held, by rollouts in the span of the directions about the origin."""
    start, length = int(regions.start[region]), float(regions.length[region])
    j, size = abs(start) - 1, len(axes)
    held = np.sign(start) * slopes.FAR * np.sqrt(len(origin))
    at = (ground.x - origin) @ axes.T
    own = regions.owner == region
    off = np.linalg.norm(ground.x - origin - at @ axes, axis=1)
    rows = np.flatnonzero((off < slopes.BESIDE) | own)
    centre = np.zeros(size) if not own.any() else at[regions.centre[region]]
    centre[j] = held
    count = 2 * size
    low, high = centre - length, centre + length
    low[j] = high[j] = held
    if own.any():
        rows = rows[np.argsort(np.linalg.norm(at[rows] - centre, axis=1), kind="stable")]
        rows = rows[: max(NEAREST * size, FEWEST_NEAREST)]
        away = region_models.next_places(at[rows], ground.y[rows], centre, length, (low, high), count, rng)
    else:
        away = np.clip(centre + length * rng.uniform(-1.0, 1.0, (count, size)), low, high)
        away[0] = centre
    return np.clip(origin + away @ axes, ground.low, ground.high)
