"""Rivals by evolution strategies: restarted CMA-ES (pycma) and CMA-MAE (pyribs), imported when used."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.ndimage

from hpsde.experiments.peers.counter import BudgetSpentError, Counter
from hpsde.experiments.peers.search import Ascent, restarted, spread_points

WIDTH, EMITTER_WIDTH = 0.03, 0.1
"""The first standard deviation of CMA-ES, and of CMA-MAE's emitters, in the unit cube."""
FIRST_POWER = 4
"""2 to this power evaluations give CMA-MAE the threshold it starts with."""
EMITTERS = 4
CELLS = {1: 100, 2: 40, 3: 20}
"""Cells of the archive along each parameter."""
LEARNING_RATE = 0.01
NO_LIMIT = {"maxstd": np.inf}
"""Of pycma: its limit on the standard deviations raises an error where there is one parameter."""


def by_cma(seed: int, tolerance: float, ascent: Ascent, start: np.ndarray, number: int) -> None:
    """One search by pycma's CMA-ES."""
    import cma

    generator = np.random.default_rng([seed, number])
    settings = {
        "bounds": [np.zeros(len(start)), np.ones(len(start))],
        "randn": lambda *shape: generator.standard_normal(shape),
        "seed": np.nan,  # none of numpy's global numbers
        "tolfun": tolerance,
        "verbose": -9,
        **NO_LIMIT,
    }
    strategy = cma.CMAEvolutionStrategy(start, WIDTH, settings)
    while not strategy.stop():
        asked = strategy.ask()
        strategy.tell(asked, (-ascent.values(np.array(asked))).tolist())


def cma_es(returns: Counter, size: int, seed: int, tolerance: float) -> np.ndarray:
    """Restarted CMA-ES; reports the distinct end points."""
    return restarted(partial(by_cma, seed, tolerance), returns, size, seed)


def cma_mae(returns: Counter, size: int, seed: int, tolerance: float) -> np.ndarray:
    """CMA-MAE; reports the elites of cells that are at least as good as all cells round them.

    The parameters are the measures, so that the archive is a grid over them. Emitters restart by their own rules.
    """
    first = spread_points(size, FIRST_POWER, seed)[: returns.left]
    scheduler = _scheduler(first, returns(first), seed)
    try:
        while True:
            asked = scheduler.ask()
            scheduler.tell(returns(asked), asked)
    except BudgetSpentError:
        pass
    elites = scheduler.result_archive.data(["solution", "objective", "index"], return_type="dict")
    shape = (CELLS[size],) * size
    return elites["solution"][_are_tops(elites["objective"], elites["index"], shape)]


def _scheduler(first: np.ndarray, values: np.ndarray, seed: int) -> Any:
    """CMA-MAE with its emitters at the best of the first points, which are in its archives already."""
    from ribs.archives import GridArchive
    from ribs.emitters import EvolutionStrategyEmitter
    from ribs.schedulers import Scheduler

    size = first.shape[1]
    grid: dict[str, Any] = {"solution_dim": size, "dims": [CELLS[size]] * size, "ranges": [(0.0, 1.0)] * size}
    archive = GridArchive(**grid, learning_rate=LEARNING_RATE, threshold_min=float(values.min()))
    elites = GridArchive(**grid)
    for each in (archive, elites):
        each.add(first, values, first)
    emitters = [
        EvolutionStrategyEmitter(
            archive,
            x0=first[place],
            sigma0=EMITTER_WIDTH,
            es="pycma_es",
            es_kwargs={"opts": dict(NO_LIMIT)},
            batch_size=4 + int(3.0 * np.log(size)),
            ranker="imp",
            selection_rule="mu",
            restart_rule="basic",
            lower_bounds=np.zeros(size),
            upper_bounds=np.ones(size),
            seed=EMITTERS * seed + number,
        )
        for number, place in enumerate(np.argsort(-values)[:EMITTERS])
    ]
    return Scheduler(archive, emitters, result_archive=elites)


def _are_tops(values: np.ndarray, cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Which elites [K], given their values and the numbers of their cells, no neighbouring cell surpasses."""
    grid = np.full(np.prod(shape), -np.inf)
    grid[cells] = values
    highest = scipy.ndimage.maximum_filter(grid.reshape(shape), size=3, mode="nearest").ravel()
    return values >= highest[cells]
