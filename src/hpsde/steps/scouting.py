"""Scouts: rollouts that go where a solution may lie unseen.

Options are sought where the model shows hills, and a hill that no rollout has come near is not shown. The model knows
where it knows little. In a scout's context some parameters are drawn from the initial policy. Those that are not known
to be as good as a solution must be, and may be, m < m* - tolerance <= m + DOUBT sd, m* being the score of the best
option, are worth a look, and of these the scout takes the one that may be best. Where none may be good there is no
scout, and none where hardly any variance is left between the first rollouts. Once all options are narrow, though, their
own rollouts bring nothing new: then scouts go wherever a solution may lie.

Where hills are climbed (climbing.py), an option's own rollouts bring nothing new either: in their place scouts go where
no rollout is near, and of these places to those that local models find likeliest to be as good as a solution.

What the search takes for a solution, but does not know to be good (discovery.py), is a guess: a few scouts try it, as
its component of the mixture would. Then it is known to be good, and an option is born, or it is gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde import gp
from hpsde.base.later import Later
from hpsde.steps import climbing
from hpsde.steps import landscape as landscapes
from hpsde.steps.discovery import tolerance
from hpsde.steps.landscape import Landscape

spatial = Later("scipy.spatial")

UNSEEN = 0.05  # share of the variance between the first rollouts that must be left, or there are no scouts
APART = 0.4  # of the distance between first rollouts, that scouts keep from all rollouts where hills are climbed
DRAWN = 6  # places for each of these scouts, LEAST_DRAWN of them in all, from which they are chosen
LEAST_DRAWN = 200
POOL = 32  # draws from the initial policy that a scout chooses from
DOUBT = 4.0  # posterior deviations by which the model may be wrong
MOST = 50  # scouts in all: in many dimensions no number of them would see everything
NARROW = 0.1  # kernel lengths: where the widest option is narrower, all are done and scouts have no limit
TRIES = 5  # of each guess, between two learning steps,
MOST_TRIED = 0.15  # and of all rollouts so far, together with other scouts


class Scouts(NamedTuple):
    """For every context, which of the drawn parameters a scout would take [n], and whether any is worth it [n]."""

    chosen: np.ndarray
    worth: np.ndarray


def choose(
    landscape: Landscape, process: gp.GP, contexts: np.ndarray, drawn: np.ndarray, options: np.ndarray
) -> Scouts:
    """Scouts in standardised contexts [n, S] from drawn parameters [n, P, D], beside the options' means [O, n, D]."""
    of_options = _points(landscape, np.tile(contexts, (len(options), 1)), options.reshape(-1, options.shape[2]))
    best = gp.predict_mean(process, of_options).reshape(len(options), -1).max(axis=0)
    places = _points(landscape, np.repeat(contexts, drawn.shape[1], axis=0), drawn.reshape(-1, drawn.shape[2]))
    mean = gp.predict_mean(process, places).reshape(drawn.shape[:2])
    least = (best - tolerance(best, landscape.temperature, float(process.mean)))[:, None]
    # No deviation is above that of the prior.
    highest = mean + DOUBT * float(np.exp(process.hyperparameters.log_signal))
    possible = (mean < least) & (highest >= least)
    highest[possible] = mean[possible] + DOUBT * np.sqrt(gp.predict(process, places[possible.ravel()])[1])
    possible &= highest >= least
    return Scouts(np.where(possible, highest, -np.inf).argmax(axis=1), possible.any(axis=1))


def likeliest(
    x: np.ndarray, y: np.ndarray, drawn: np.ndarray, others: np.ndarray, least: float, apart: float, count: int
) -> np.ndarray:
    """Which of the places drawn [M, D] are likeliest to have a return of `least` or more [count], by local models of
    the rollouts x [N, D] with returns y [N].

    None is nearer than `apart` to a rollout, to the `others` [k, D] that are under way, and to one another; where too
    few are so far, the place is taken that is farthest from all.
    """
    distance, _ = spatial.KDTree(np.concatenate([x, others])).query(drawn)
    chance, far = np.full(len(drawn), -np.inf), distance >= apart
    chance[far] = climbing.chances(x, y, drawn[far], least)
    chosen = np.zeros(count, dtype=int)
    for i in range(count):
        free = distance >= apart
        chosen[i] = np.argmax(np.where(free, chance, -np.inf) if free.any() else distance)
        distance = np.minimum(distance, np.linalg.norm(drawn - drawn[chosen[i]], axis=1))
    return chosen


def _points(landscape: Landscape, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Points of the process [N, E]."""
    z = np.concatenate([parameters, contexts], axis=1)
    return z @ landscapes.axes_of(landscape, z.shape[1]).T
