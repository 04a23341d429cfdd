"""Climbs end: no rollout is asked for twice, and after a few of them none at all."""

import numpy as np
import pytest

from hpsde.steps.climbing import find_hills
from test_climbing import CENTRES, GRID, NINE, THREE, cloud, do_next, ground_of

CLOUDS = [(THREE, 7, 300, len(CENTRES)), (NINE, 20, 250, len(GRID)), (NINE, 21, 250, len(GRID))]


@pytest.mark.parametrize(("function", "seed", "first", "maxima"), CLOUDS)
def test_a_place_is_asked_for_once(function, seed, first, maxima):
    """Also by a summit whose model leads farther than the spacing: what was found there is its answer."""
    ground = ground_of(function, cloud(seed, first))
    for _ in range(20):
        places = np.array([each.next for each in find_hills(ground, 0.6, 0.1, 50) if each.next is not None])
        if not len(places):
            break
        nearest = np.linalg.norm(places[:, None] - ground.x[None], axis=2).min(axis=1)
        assert nearest.min() > 1e-9
        ground = ground._replace(x=np.concatenate([ground.x, places]), y=np.append(ground.y, function(places)))


@pytest.mark.parametrize(("function", "seed", "first", "maxima"), CLOUDS)
def test_after_a_few_rollouts_for_each_maximum_nothing_is_asked_for(function, seed, first, maxima):
    ground, hills = do_next(function, ground_of(function, cloud(seed, first)), 0.6, 0.1, rounds=40)
    assert [each for each in hills if each.next is not None] == []
    assert len(ground.y) - first <= 16 * maxima
