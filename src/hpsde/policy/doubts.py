"""What a policy's learner is not sure of, in plain words and with a number, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Doubt:
    """One reason not to trust a policy.

    kind: a short name, such as "unexplained". value: the number behind it. text: what is wrong, with the number, and
    what to do.
    """

    kind: str
    value: float
    text: str

    def __str__(self) -> str:
        return self.text


class Signs(NamedTuple):
    """What a learner knows of its own work after a learning step; NaN where something is not known.

    explained: R^2 of the first rollouts, each predicted from all others. unexplored: share of the variance that is left
    between the first rollouts. expected, best_first: the return that is expected of the policy, less a standard
    deviation, and a modelled return that a tenth of the first rollouts exceed. width: of the widest option, in kernel
    lengths. options, maxima: how many options there are, and how many solutions the model shows. settled: learning
    steps since that number last changed. outside: share of the newest rollouts that lie against or beyond the bounds of
    a uniform initial policy. directions: of the parameters, that matter. first: how many first rollouts there are.
    climbing: regions that climb still, where options are sought by them. beaten: share of the contexts in which a
    rollout was better than every option is. scatter: of the newest rollouts of the steadiest option around the model, a
    share of the first returns' variance.
    """

    explained: float
    unexplored: float
    expected: float
    best_first: float
    width: float
    options: int
    maxima: int
    settled: int
    outside: float
    directions: int
    first: int
    climbing: int = 0
    beaten: float = float("nan")
    scatter: float = float("nan")


def signs_of_regions(options: int, tops: int, settled: int, climbing: int) -> Signs:
    """What is known where options stand on tops that regions have found: nothing is modelled."""
    nan = float("nan")
    return Signs(nan, nan, nan, nan, nan, options, max(tops, 1), settled, nan, directions=0, first=1, climbing=climbing)


EXPLAINED = 0.1
RESOLVED = 0.7
NOISE = 0.2
UNEXPLORED = 0.4
WIDTH = 2.5
SETTLED = 3
OUTSIDE = 0.2
TRIED = 0.05
BEATEN = 0.05


def find_doubts(signs: Signs) -> tuple[Doubt, ...]:
    """Every reason not to trust a policy, the gravest first."""
    return (*_of_the_first_rollouts(signs), *_of_the_options(signs))


def _of_the_first_rollouts(signs: Signs) -> Iterator[Doubt]:
    """Doubts whether the first rollouts tell enough."""
    if signs.maxima == 0 or signs.explained < EXPLAINED:
        share = max(signs.explained, 0.0) if np.isfinite(signs.explained) else 0.0
        known = "it hardly knows what they depend on" if share < EXPLAINED else "but it shows no solution"
        yield Doubt(
            "unexplained",
            float(share),
            f"The model explains {100 * share:.0f} % of the first returns' variance: {known}. More initial rollouts "
            "may help; check that the returns depend on the parameters at all.",
        )
    elif signs.explained < RESOLVED and signs.scatter < NOISE * (1.0 - signs.explained):
        yield Doubt(
            "coarse",
            float(signs.explained),
            f"The model explains {100 * signs.explained:.0f} % of the first returns' variance, and the rest is no "
            "noise: an option's own rollouts hardly scatter. The return has more detail than the model shows, and "
            "solutions may be taken for one or stay unseen. More initial rollouts.",
        )
    if signs.unexplored > UNEXPLORED:
        yield Doubt(
            "few",
            float(signs.unexplored),
            f"Between the first rollouts {100 * signs.unexplored:.0f} % of the variance is unknown: solutions may lie "
            "there unseen. Raise initial_rollouts.",
        )
    tried = signs.first / 2.0**signs.directions
    if tried < TRIED:
        yield Doubt(
            "many",
            float(tried),
            f"{signs.directions} directions of the parameters matter: the {signs.first} first rollouts are one for "
            f"every {1.0 / tried:.3g} ways to go up or down along each, and solutions may lie unseen. More initial "
            "rollouts help only where they are many more; leave out parameters that hardly matter.",
        )


def _of_the_options(signs: Signs) -> Iterator[Doubt]:
    """Doubts whether the options are what was sought, and all of it."""
    if signs.expected < signs.best_first:
        yield Doubt(
            "not-better",
            float(signs.expected),
            f"The policy is sure of a return of {signs.expected:.4g}, and a tenth of the first rollouts had more than "
            f"{signs.best_first:.4g}: nothing has been gained yet. More rollouts, or more initial ones.",
        )
    if signs.beaten > BEATEN:
        yield Doubt(
            "beaten",
            float(signs.beaten),
            f"In {100 * signs.beaten:.0f} % of the contexts a rollout was much better than any option is: an option "
            "does not follow its solution there, or a solution has no option. More rollouts; if it stays, other "
            "features, such as features='squared-exponential'.",
        )
    if signs.width > WIDTH:
        yield Doubt(
            "wide",
            float(signs.width),
            f"An option varies over {signs.width:.2g} kernel lengths, more than the solution it stands for is wide. "
            "More rollouts narrow it.",
        )
    if signs.climbing:
        yield Doubt(
            "climbing",
            float(signs.climbing),
            f"{signs.climbing} regions climb still: options may rise, and solutions whose tops are not reached have "
            "none yet. More rollouts.",
        )
    if signs.maxima > signs.options:
        yield Doubt(
            "unheld",
            float(signs.maxima - signs.options),
            f"The model shows {signs.maxima} maxima and there are {signs.options} options. Raise max_options.",
        )
    if signs.settled < SETTLED:
        yield Doubt(
            "unsettled",
            float(signs.settled),
            f"The number of options changed {signs.settled} learning steps ago. Go on until it stays the same.",
        )
    if signs.maxima and signs.outside > OUTSIDE:
        yield Doubt(
            "bound",
            float(signs.outside),
            f"{100 * signs.outside:.0f} % of the newest rollouts lie against the bounds of the initial distribution: "
            "better parameters may lie beyond. Widen it; or give it as `bounds`, if they must not be left.",
        )
