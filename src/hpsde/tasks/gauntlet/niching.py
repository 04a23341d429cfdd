"""The ten simple functions of the CEC 2013 competition on niching, each to be maximised, without a context.

Each is the competition's formula on its box. Outside the box the return is that of the nearest point in it minus
the function's range for every tenth of the box: solutions lie inside. The seed of these cells changes nothing in
the task, and is there for the learner.

Li, Engelbrecht, Epitropakis: Benchmark functions for CEC 2013 special session and competition on niching methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.later import Later
from hpsde.base.shapes import Float
from hpsde.tasks.gauntlet.known import Cell, KnownTask, known_task
from hpsde.tasks.solutions import Solution

optimize = Later("scipy.optimize")


__all__ = ["CELLS"]

Function = Callable[[np.ndarray], np.ndarray]
TRAP = ([0.0, 2.5, 5.0, 7.5, 12.5, 17.5, 22.5, 27.5, 30.0], [200.0, 0.0, 160.0, 0.0, 140.0, 0.0, 160.0, 0.0, 200.0])
HIMMELBLAU = [[3.0, 2.0], [-2.805118, 3.131312], [-3.779310, -3.283186], [3.584428, -1.848126]]
CAMEL = [[0.0898, -0.7126], [1.7036, -0.7961], [1.6071, 0.5687]]
RASTRIGIN = np.array([3.0, 4.0])


def trap(x: np.ndarray) -> np.ndarray:
    """F1, five-uneven-peak trap: straight between its corners."""
    return np.interp(x[:, 0], *TRAP)


def equal_maxima(x: np.ndarray) -> np.ndarray:
    """F2: sin^6(5 pi x)."""
    return np.sin(5.0 * np.pi * x[:, 0]) ** 6


def uneven_decreasing(x: np.ndarray) -> np.ndarray:
    """F3: exp(-2 log(2) ((x - 0.08) / 0.854)^2) sin^6(5 pi (x^(3/4) - 0.05))."""
    fall = np.exp(-2.0 * np.log(2.0) * ((x[:, 0] - 0.08) / 0.854) ** 2)
    return fall * np.sin(5.0 * np.pi * (x[:, 0] ** 0.75 - 0.05)) ** 6


def himmelblau(x: np.ndarray) -> np.ndarray:
    """F4: 200 - (x^2 + y - 11)^2 - (x + y^2 - 7)^2."""
    a, b = x.T
    return 200.0 - (a**2 + b - 11.0) ** 2 - (a + b**2 - 7.0) ** 2


def camel(x: np.ndarray) -> np.ndarray:
    """F5, six-hump camel back: -4 ((4 - 2.1 x^2 + x^4 / 3) x^2 + x y + (4 y^2 - 4) y^2)."""
    a, b = x.T
    return -4.0 * ((4.0 - 2.1 * a**2 + a**4 / 3.0) * a**2 + a * b + (4.0 * b**2 - 4.0) * b**2)


def shubert(x: np.ndarray) -> np.ndarray:
    """F6 and F8: -prod_i g(x_i), g(x) = sum_{j=1..5} j cos((j + 1) x + j)."""
    return -np.prod(_shubert_factor(x), axis=1)


def vincent(x: np.ndarray) -> np.ndarray:
    """F7 and F9: the mean over i of sin(10 log x_i)."""
    return np.mean(np.sin(10.0 * np.log(x)), axis=1)


def rastrigin(x: np.ndarray) -> np.ndarray:
    """F10, modified Rastrigin: -sum_i (10 + 9 cos(2 pi k_i x_i)), k = 3, 4."""
    return -np.sum(10.0 + 9.0 * np.cos(2.0 * np.pi * RASTRIGIN * x), axis=1)


def _shubert_factor(x: np.ndarray) -> np.ndarray:
    return sum((j * np.cos((j + 1.0) * x + j) for j in range(1, 6)), start=np.zeros_like(x))


def _shubert_slope(x: float) -> float:
    return float(-sum(j * (j + 1.0) * np.sin((j + 1.0) * x + j) for j in range(1, 6)))


def _climbed(function: Function, starts: list[list[float]]) -> Float[np.ndarray, "K D"]:
    """The local maxima next to `starts`, to about ten digits."""
    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 2000}
    found = [
        optimize.minimize(lambda x: -function(x[None])[0], start, method="Nelder-Mead", options=options).x
        for start in starts
    ]
    return np.array(found)


def _shubert_optima(size: int, least: float) -> Float[np.ndarray, "K D"]:
    """Local maxima of `shubert` in the box with at least the share `least` of the best return.

    There all factors are stationary, and d^2 R / dx_i^2 = R g''(x_i) / g(x_i) is negative: of every factor it is
    a positive maximum or a negative minimum.
    """
    grid = np.linspace(-10.0, 10.0, 4001)
    slopes = np.array([_shubert_slope(x) for x in grid])
    ends = [(grid[i], grid[i + 1]) for i in np.flatnonzero(slopes[:-1] * slopes[1:] < 0.0)]
    places = np.array([optimize.brentq(_shubert_slope, *each, xtol=1e-13) for each in ends])
    values = _shubert_factor(places)
    bent = np.sign(_shubert_factor(places + 1e-3) + _shubert_factor(places - 1e-3) - 2.0 * values)
    tops = places[bent * values < 0.0]
    points = np.array(list(product(tops, repeat=size)))
    returns = shubert(points)
    return points[returns >= least * returns.max()]


def _vincent_optima(size: int) -> Float[np.ndarray, "K D"]:
    places = np.exp((np.pi / 2.0 + 2.0 * np.pi * np.arange(-2, 4)) / 10.0)
    return np.array(list(product(places, repeat=size)))


def _rastrigin_optima() -> Float[np.ndarray, "K D"]:
    axes = [(np.arange(k) + 0.5) / k for k in RASTRIGIN]
    return np.array(list(product(*axes)))


def _camel_optima() -> Float[np.ndarray, "K D"]:
    one_side = _climbed(camel, CAMEL)
    return np.concatenate([one_side, -one_side])


def _uneven_optima() -> Float[np.ndarray, "K D"]:
    return _climbed(uneven_decreasing, [[0.08], [0.247], [0.451], [0.681], [0.934]])


def _boxed(function: Function, low: np.ndarray, high: np.ndarray, slope: float) -> Callable[..., np.ndarray]:
    """The function inside the box; outside, at the nearest point inside, minus `slope` for each box length."""

    def returns(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        inside = np.clip(parameters, low, high)
        return function(inside) - slope * np.linalg.norm((parameters - inside) / (high - low), axis=1)

    return returns


def _solutions(optima: np.ndarray, values: np.ndarray) -> tuple[Solution, ...]:
    """One for each optimum, followed within a quarter of the distance from the nearest other one.

    Those that reach the best value are required, lower ones are not.
    """
    best = values.max()
    required = values >= best - 1e-6 * max(abs(best), 1.0)
    gaps = np.linalg.norm(optima[:, None] - optima, axis=2)
    np.fill_diagonal(gaps, np.inf)
    rules = zip(optima, (0.25 * gaps.min(axis=1)).tolist(), required.tolist(), strict=True)
    return tuple(_at(f"optimum {k}", *each) for k, each in enumerate(rules, start=1))


def _at(name: str, optimum: np.ndarray, radius: float, required: bool) -> Solution:
    return Solution(
        name,
        follows=lambda contexts, parameters: np.linalg.norm(parameters - optimum, axis=1) <= radius,
        parameters=lambda contexts: np.broadcast_to(optimum, (len(contexts), len(optimum))),
        required=required,
    )


def _task(
    name: str,
    description: str,
    function: Function,
    box: tuple[list[float], list[float]],
    optima: Callable[[], np.ndarray],
    max_options: int,
    seed: int,
) -> KnownTask:
    """The task of one function, the same for every seed."""
    low, high = np.array(box[0]), np.array(box[1])
    places = optima()
    values = function(places)
    best = float(values.max())
    slope = 10.0 * (best - float(function(np.random.default_rng(0).uniform(low, high, (1000, len(low)))).min()))
    return known_task(
        f"{name}@{seed}",
        _boxed(function, low, high, slope),
        lambda contexts: np.full(len(contexts), best),
        initial=Uniform(low, high),
        solutions=_solutions(places, values),
        max_options=max_options,
        description=description,
    )


def _cell(
    number: int,
    what: str,
    function: Function,
    low: list[float],
    high: list[float],
    optima: Callable[[], np.ndarray],
    max_options: int = 10,
) -> Cell:
    name = f"cec-f{number}"
    description = f"CEC 2013 F{number}, {what}, no context"
    return Cell(
        name, "bumps", partial(_task, name, description, function, (low, high), optima, max_options), description
    )


CELLS = {
    cell.name: cell
    for cell in (
        _cell(1, "five-uneven-peak trap", trap, [0.0], [30.0], lambda: np.array(TRAP[0])[[0, 2, 4, 6, 8], None]),
        _cell(2, "equal maxima", equal_maxima, [0.0], [1.0], lambda: np.array([0.1, 0.3, 0.5, 0.7, 0.9])[:, None]),
        _cell(3, "uneven decreasing maxima", uneven_decreasing, [0.0], [1.0], _uneven_optima),
        _cell(4, "Himmelblau", himmelblau, [-6.0] * 2, [6.0] * 2, lambda: _climbed(himmelblau, HIMMELBLAU)),
        _cell(5, "six-hump camel back", camel, [-1.9, -1.1], [1.9, 1.1], _camel_optima),
        _cell(6, "Shubert, 2 parameters", shubert, [-10.0] * 2, [10.0] * 2, lambda: _shubert_optima(2, 0.0), 40),
        _cell(7, "Vincent, 2 parameters", vincent, [0.25] * 2, [10.0] * 2, lambda: _vincent_optima(2), 60),
        _cell(8, "Shubert, 3 parameters", shubert, [-10.0] * 3, [10.0] * 3, lambda: _shubert_optima(3, 0.3), 100),
        _cell(9, "Vincent, 3 parameters", vincent, [0.25] * 3, [10.0] * 3, lambda: _vincent_optima(3), 100),
        _cell(10, "modified Rastrigin", rastrigin, [0.0] * 2, [1.0] * 2, _rastrigin_optima, 20),
    )
}
