"""A return function for `hpsde run my_problem.toml`: a ball thrown at 10 m/s at a target."""

import numpy as np


def my_return(context, parameters):
    """Minus the metres from ball to target; NaN, a failed throw, where the arm cannot go."""
    (distance,), (angle,) = context, parameters
    if angle < 0.0 or angle > 90.0:
        return np.nan
    landing = 10.0**2 / 9.81 * np.sin(2.0 * np.radians(angle))
    return -abs(landing - distance)


def windy_return(context, parameters, seed):
    """The same in a gusty wind, which the seed decides."""
    gust = np.random.default_rng(seed).normal(0.0, 0.2)
    return my_return(np.asarray(context) - gust, parameters)
