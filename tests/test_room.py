"""A process that learns many tasks has room for their programs."""

import jax
import jax.numpy as jnp
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.program_memory import make_room


def is_compiled(function, x):
    with count_compilations() as compiled:
        function(x)
    return compiled.count == 0


@pytest.mark.parametrize(("taken", "forgotten"), [(99, False), (100, True)])
def test_programs_are_forgotten_from_half_of_the_room_on(tmp_path, taken, forgotten):
    mapped, most = tmp_path / "maps", tmp_path / "max_map_count"
    mapped.write_text("a piece of memory\n" * taken)
    most.write_text("200\n")
    double, x = jax.jit(lambda x: 2.0 * x), jnp.ones(3)
    double(x)
    assert make_room(mapped, most) == forgotten
    assert is_compiled(double, x) != forgotten


def test_where_the_system_does_not_say_nothing_is_forgotten(tmp_path):
    assert not make_room(tmp_path / "none", tmp_path / "none")
