"""How a learning step went: what a plot, a test or a doubt needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpsde import gp
from hpsde.steps import gaussian, valleys
from hpsde.steps.configuration import WeighingSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape, axes_of, scores_of
from hpsde.steps.latent import Latent, Shown
from hpsde.steps.numbering import Numbers
from hpsde.steps.residuals import explained as explained_by
from hpsde.steps.rollouts import Data
from hpsde.steps.scouting import NARROW
from hpsde.steps.state import State
from hpsde.steps.surface import Surface
from hpsde.steps.weighing import return_temperature
from hpsde.steps.weights import ImportanceWeights

JUDGED = 17  # contexts of first rollouts in which the policy is compared with them:
BEST = 0.9  # its return should come up to this quantile of theirs,
GAINED = 0.9  # or at least so much of the way there from their median
MATTERS = 0.2  # kernel lengths that the first rollouts spread along a direction that matters
AGAINST = 0.005  # of the range: so near a bound is against it
PARTS, COMPARED = 32, 16  # of the contexts; of the rollouts in each part, the best, that options are compared with
FEWEST = 5  # rollouts of an option that tell how much they scatter
BEATEN = 0.25  # of how far the best rollout is above the middle first one, by which one is better than the options


@dataclass(frozen=True)
class StepInfo:
    """What a plot, a test or a doubt needs to know of one learning step.

    explained: R^2 of the first rollouts, each predicted from all others, the best so far. unexplored: share of the
    variance that is left between the first rollouts. maxima: solutions that the model shows. width: of the widest
    option, in kernel lengths. directions: see `directions_that_matter`. best_first: see `best_of_first`. beaten: see
    `share_beaten`. scatter: see `least_scatter`. outliers: rollouts whose returns are not believed. quiet: rollouts
    since all options are narrow and none was born or died. climbing: regions that climb still, where options are sought
    by them.
    """

    options_kept: int = 0
    ess: float = float("nan")
    temperature: float = float("nan")
    flattening: float = float("nan")
    lower_bound: float = float("nan")
    warm: bool = False
    born: tuple[int, ...] = ()
    died: tuple[int, ...] = ()
    explained: float = float("nan")
    maxima: int = 0
    width: float = float("nan")
    unexplored: float = float("nan")
    directions: int = 0
    best_first: float = float("nan")
    beaten: float = float("nan")
    scatter: float = float("nan")
    outliers: int = 0
    quiet: int = 0
    climbing: int = 0


def judge(
    data: Data,
    seen: Data,
    importance: ImportanceWeights,
    found: Latent,
    policies: LinearGaussian,
    numbers: Numbers,
    landscape: Landscape | None,
    shown: Shown | None,
    surface: Surface | None,
    state: State,
    settings: WeighingSettings,
) -> StepInfo:
    """How the step went that has led from this state to these options; `seen`: rollouts with modelled returns."""
    width = widest(policies, found, landscape)
    still = width < NARROW and not numbers.born and not numbers.died
    return StepInfo(
        ess=importance.ess,
        temperature=return_temperature(data, importance, settings),
        flattening=importance.flattening,
        options_kept=int(found.kept.sum()),
        lower_bound=found.bound,
        warm=found.warm,
        born=numbers.born,
        died=numbers.died,
        explained=explained(surface, found),
        maxima=0 if found.found is None else found.found.separate,
        width=width,
        unexplored=float("nan") if found.found is None else found.found.unexplored,
        directions=directions_that_matter(data, landscape),
        best_first=best_of_first(data, seen),
        beaten=share_beaten(data, seen, found, policies, landscape, shown),
        scatter=float("nan") if np.isfinite(state.least) else least_scatter(data, seen, found),
        outliers=data.rollouts - int(data.mask.sum()),
        quiet=state.quiet + data.rollouts - len(state.distrusted) if still else 0,
    )


def explained(surface: Surface | None, found: Latent) -> float:
    """R^2 of the first rollouts, each predicted from all others by the landscape; where there is none, or returns are
    success or failure, what the surface explains.
    """
    if found.found is not None and np.isfinite(found.found.explained):
        return found.found.explained
    return float("nan") if surface is None else explained_by(surface)


def judged(data: Data) -> np.ndarray:
    """Numbers of a few first rollouts, in whose contexts the policy is compared with them."""
    first = np.flatnonzero(data.mask & data.initial)
    return first[gp.spread_subset(len(first), JUDGED)]


def best_of_first(data: Data, seen: Data) -> float:
    """The mean return over the `judged` contexts that a policy must exceed to count as improved.

    It lies GAINED of the way from the median of the first rollouts to the BEST quantile of their modelled returns, not
    at the quantile itself: where many first rollouts succeed, no policy exceeds it. The level of each context is added.
    """
    first = data.mask & data.initial
    if not first.any():
        return float("nan")
    typical, best = np.median(data.advantages[first]), np.quantile(seen.advantages[first], BEST)
    level = np.mean(np.broadcast_to(data.level, first.shape)[judged(data)])
    return float(level + typical + GAINED * (best - typical))


def share_beaten(
    data: Data, seen: Data, found: Latent, policies: LinearGaussian, landscape: Landscape | None, shown: Shown | None
) -> float:
    """The share of PARTS of the contexts in which a rollout, one of the COMPARED best ones there, is better than every
    option is in the same context, in the landscape: an option does not follow its solution there, or a solution has no
    option.
    """
    rows, first = np.flatnonzero(data.mask), data.mask & data.initial
    if landscape is None or shown is None or landscape.binary or not data.contexts.shape[1] or not first.any():
        return float("nan")
    contexts = data.contexts[rows]
    middles = contexts[gp.spread_subset(len(rows), PARTS)]
    part = np.argmin(np.sum((contexts[:, None] - middles[None]) ** 2, axis=2), axis=1)
    order = np.lexsort((-seen.advantages[rows], part))
    begins = np.searchsorted(part[order], part[order])
    best = order[np.arange(len(order)) - begins < COMPARED]
    means = gaussian.means(policies, data.features[rows[best]])[found.kept]
    curves = np.concatenate([means, data.parameters[rows[best]][None]]) @ landscape.view.V
    heights = valleys.heights(shown.model, curves, contexts[best])
    scale = heights[-1].max() - np.median(scores_of(landscape, data.advantages[first]))
    better = heights[-1] - heights[:-1].max(axis=0) > BEATEN * scale
    return float(len(np.unique(part[best[better]])) / len(np.unique(part)))


def directions_that_matter(data: Data, landscape: Landscape | None) -> int:
    """How many directions of the parameters the first rollouts spread along by more than MATTERS kernel lengths."""
    first = data.mask & data.initial
    if landscape is None or not first.any():
        return 0
    lengths = np.exp(np.asarray(landscape.hyperparameters.log_lengths))
    y = data.parameters[first] @ axes_of(landscape, data.joint.shape[1])[:, : data.parameters.shape[1]].T / lengths
    spread = np.linalg.svd(y - y.mean(axis=0), compute_uv=False) / np.sqrt(len(y))
    return int(np.sum(spread > MATTERS))


def least_scatter(data: Data, seen: Data, found: Latent) -> float:
    """By how much the returns of an option's newest rollouts scatter around what is modelled of them, a share of the
    variance of the first returns; of the option where it is least. What scatters everywhere is noise. Not known where
    hills are climbed: the landscape does not decide about these.
    """
    newest = [rows for each in found.responsibilities > 0.5 if len(rows := data.newest(each)) >= FEWEST]
    variance = float(np.var(data.advantages[data.mask & data.initial])) if newest else 0.0
    if not variance > 0.0:
        return float("nan")
    return float(min(np.mean((data.returns[rows] - seen.returns[rows]) ** 2) for rows in newest) / variance)


def share_outside(data: Data) -> float:
    """Share of the policy's newest rollouts that lie against or beyond the bounds of a uniform initial policy."""
    own = data.newest()
    if data.range is None or not len(own):
        return float("nan")
    low, high = data.range
    near = AGAINST * (high - low)
    return float(np.mean(np.any((data.parameters[own] < low + near) | (data.parameters[own] > high - near), axis=1)))


def widest(policies: LinearGaussian, found: Latent, landscape: Landscape | None) -> float:
    """The largest standard deviation of an option along what the return sees, in kernel lengths."""
    if landscape is None:
        return float("nan")
    V = landscape.view.V
    variance = np.einsum("dk,ode,ek->ok", V, np.asarray(policies.Sigma)[found.kept], V)
    return float(np.sqrt(variance.max()))
