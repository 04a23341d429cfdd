"""Wrong shapes are noticed: at the first calls of a function, and later at one in so many."""

import beartype
import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

import shape_checks
from hpsde.base.padding import pad_rows
from shape_checks import FIRST, THEN


def total(a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"]) -> float:
    return float(a.sum() + b.sum())


@pytest.fixture
def checked():
    """`total` as the functions of hpsde are; its calls are the first."""
    shape_checks.begin()
    return shape_checks._checked(typechecker=beartype.beartype)(total)


def refused(function, rows):
    try:
        function(np.zeros(rows), np.zeros(3))
    except TypeCheckError:
        return True
    return False


def test_the_first_calls_are_all_checked(checked):
    assert all(refused(checked, 2) for _ in range(FIRST))
    assert checked(np.ones(3), np.ones(3)) == 6.0


def test_later_ones_at_times_and_all_again_in_the_next_file(checked):
    for _ in range(FIRST):
        checked(np.ones(3), np.ones(3))
    assert sum(refused(checked, 2) for _ in range(2 * THEN)) == 2
    shape_checks.begin()
    assert refused(checked, 2)


def test_hpsde_is_checked():
    with pytest.raises(TypeCheckError):
        pad_rows([1.0], 2)
