"""Options on the hills that climbs have found (climbing.py).

A rollout on the top of a hill says more than any model: an option whose hill is climbed stands there, and a hill that
no option holds gives birth to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.steps import climbing, discovery, gaussian, latent, outliers, valleys
from hpsde.steps.climbing import KNOWN, NEIGHBOURS, UNSURE, Ground, Seen
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.latent import Latent
from hpsde.steps.refinement import NARROWEST
from hpsde.steps.rollouts import Data

MOST = 50  # hills that are climbed at once
NEAR = 0.1  # deviations of the first rollouts: an option so near a top stands on it


class Climbs(NamedTuple):
    """The hills that are solutions, the highest first, and the rollouts to do next.

    rows [H]: of the hills' highest rollouts; known [H]: whether valleys to the other hills are measured; widths [H]:
    how far from the highest rollouts the tops may be; close [H]: how near to them no more is lost than a rollout is
    worth. places [n, D]: parameters of the next rollouts; summits [n]: rows of the highest rollouts of their hills.
    least: return that a solution must have; NaN: hills are not climbed yet. ground: what was climbed; depth: of a
    valley, in units of the returns.
    """

    rows: np.ndarray
    known: np.ndarray
    widths: np.ndarray
    close: np.ndarray
    places: np.ndarray
    summits: np.ndarray
    least: float
    ground: Ground | None = None
    depth: float = 0.0


def survey(data: Data, temperature: float, looks: dict[bytes, Seen]) -> Climbs | None:
    """The climbs by these rollouts, with the T of f in units of the returns; None: there can be none.

    looks: what models have shown before, which need not be computed again.
    """
    usable, first = np.flatnonzero(data.mask), data.mask & data.initial
    size = data.parameters.shape[1]
    spacing = climbing.spacing_of(int(first.sum()), size)
    if data.contexts.shape[1] or not first.any() or spacing > 1.0:
        return None
    x, y = data.parameters[usable], data.advantages[usable]
    low, high = data.limits or (np.full(size, -np.inf), np.full(size, np.inf))
    ground = climbing.Ground(x, y, spacing, float(np.median(data.advantages[first])), low, high, looks)
    again, differ = climbing.repeats(np.round(x, 9), y)
    if differ > climbing.REPEATED * ground.scale:
        return None
    nothing, real = np.zeros(0, dtype=int), np.arange(len(data.mask)) < data.rollouts
    # What is not believed is done once more: with the same return it is (outliers.py).
    once_more = np.flatnonzero(outliers.alone(data.parameters, real & ~data.mask))
    if len(again):
        once_more = np.concatenate([usable[again], once_more])
        return Climbs(nothing, nothing > 0, np.zeros(0), np.zeros(0), data.parameters[once_more], once_more, np.nan)
    best = float(y.max())
    least = best - float(discovery.tolerance(np.array([best]), temperature, ground.typical)[0])
    depth = valleys.DEPTH * temperature
    hills = climbing.find_hills(ground, least, depth, MOST)
    tops = [each for each in hills if each.state in (KNOWN, UNSURE) and y[each.row] >= least]
    # What makes sure of tops that are nearly reached comes last.
    again_at = data.parameters[once_more]
    going = sorted((each for each in hills if _is_new(each.next, again_at)), key=lambda each: each.width <= each.close)
    return Climbs(
        rows=usable[[each.row for each in tops]],
        known=np.array([each.state == KNOWN for each in tops], dtype=bool),
        widths=np.array([each.width for each in tops]),
        close=np.array([each.close for each in tops]),
        places=np.array([*again_at, *(each.next for each in going)]).reshape(-1, size),
        summits=np.concatenate([once_more, usable[[each.row for each in going]]]),
        least=least,
        ground=ground,
        depth=depth,
    )


def _is_new(place: np.ndarray | None, asked: np.ndarray) -> bool:
    """Whether a rollout is asked for at a place that is none of these [n, D]."""
    return place is not None and not np.any(np.linalg.norm(asked - place, axis=1) <= climbing.TOGETHER)


def owners(found: Latent, data: Data, climbs: Climbs) -> np.ndarray:
    """The slot of the option whose best rollout is the summit of each next rollout's hill [n]; -1: nobody's."""
    slots = found.responsibilities[:, climbs.summits].argmax(axis=0)
    return np.where(found.kept[slots] & (best_rollouts(found, data)[slots] == climbs.summits), slots, -1)


def best_rollouts(found: Latent, data: Data) -> np.ndarray:
    """The row of the best rollout of each option [O]."""
    return np.where((found.responsibilities > 0.5) & data.mask, data.advantages, -np.inf).argmax(axis=1)


def hold(found: Latent, data: Data, climbs: Climbs, before: np.ndarray | None, means: np.ndarray) -> Latent:
    """The options with one for every known hill, as far as there are slots.

    before [O], means [O, D]: the options there were. One that stands on a hill is not lost while the hill is there; one
    whose best rollout is beside a top that another option holds, or from whose best rollout others lead to that top
    without a valley, has no hill of its own, and goes.
    """
    if not climbs.known.any():
        return found
    kept = found.kept.copy() if found.found is not None else np.zeros_like(found.kept)
    taken, new = np.zeros_like(kept), {}
    old = np.zeros_like(kept) if before is None else before
    for row, known in zip(climbs.rows.tolist(), climbs.known.tolist(), strict=True):
        top, own = data.parameters[row], int(found.responsibilities[:, row].argmax())
        if kept[own] and not taken[own]:
            taken[own] = True
            continue
        near = np.linalg.norm(means - top, axis=1)
        stands = ~kept & old & (near < NEAR) if len(near) else np.zeros_like(kept)
        free = np.flatnonzero(~kept & ~taken)
        if len(free) and (known or stands.any()):
            # A slot that nobody had comes before one that has just become free.
            slot = int(min(free, key=lambda o: (not (old[o] and near[o] < NEAR), bool(old[o]))))
            new[slot], taken[slot], kept[slot] = top, True, True
    best, tops = best_rollouts(found, data), data.parameters[climbs.rows]
    distance = np.linalg.norm(data.parameters[best][:, None] - tops, axis=2)
    for o in np.flatnonzero(kept & ~taken):
        kept[o] = distance[o].min() >= NEAR and not _leads_to_one(data, climbs, int(best[o]), distance[o])
    if found.found is None:
        return nearest(data, kept, new)
    changed = discovery.with_points(found.found, new)._replace(kept=kept, died=found.found.died & ~kept)
    return latent.as_found(data, changed)._replace(new=found.new)


def _leads_to_one(data: Data, climbs: Climbs, best: int, distance: np.ndarray) -> bool:
    """Whether rollouts lead from an option's best one to one of the known tops next to it, at these distances [H]."""
    ground = climbs.ground
    if ground is None:
        return False
    own, *tops = np.searchsorted(np.flatnonzero(data.mask), [best, *climbs.rows]).tolist()
    nearest = [tops[top] for top in np.argsort(distance, kind="stable") if climbs.known[top]][:NEIGHBOURS]
    return any(ground.y[top] >= ground.y[own] and climbing.lead_to(ground, own, top, climbs.depth) for top in nearest)


def nearest(data: Data, kept: np.ndarray, points: dict[int, np.ndarray]) -> Latent:
    """Options at these points, each of which has the rollouts that are nearest to it."""
    slots = np.array(list(points))
    distance = np.linalg.norm(data.parameters[None] - np.stack(list(points.values()))[:, None], axis=2)
    own = slots[distance.argmin(axis=0)]
    return Latent(kept, (np.arange(len(kept))[:, None] == own).astype(float) * data.mask)


def on_tops(policies: LinearGaussian, data: Data, found: Latent, climbs: Climbs) -> LinearGaussian:
    """The options on the highest rollouts of their hills, which are measured; an optimum that refinement shows is taken
    where it is so close to that rollout that it cannot be worse by what a rollout is worth.
    """
    b, w, Sigma = (np.array(each) for each in policies[:3])
    placed = np.zeros(len(b), dtype=bool)
    h = gaussian.added(policies, data.features[:1])[:, 0]  # there is one context
    for row, width, close in zip(climbs.rows.tolist(), climbs.widths.tolist(), climbs.close.tolist(), strict=True):
        o = int(found.responsibilities[:, row].argmax())
        if not found.kept[o] or placed[o]:
            continue
        placed[o] = True
        away = np.linalg.norm(b[o] + data.features[row] @ w[o] + h[o] - data.parameters[row])
        if max(away, float(np.sqrt(np.linalg.eigvalsh(Sigma[o])[-1]))) > close:
            b[o], w[o] = data.parameters[row] - h[o], 0.0
            Sigma[o] = max(width, NARROWEST) ** 2 * np.eye(b.shape[1])
    return policies._replace(b=b, w=w, Sigma=Sigma)
