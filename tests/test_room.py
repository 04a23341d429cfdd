"""A process that learns many tasks has room for their programs."""

import subprocess
import sys

from hpsde.base.program_memory import make_room
from patience import LONG

# In a process of its own: this one's programs are those of the tests to come.
HALF_FULL = """
import sys
from pathlib import Path
import jax
import jax.numpy as jnp
from hpsde.base.compilations import count_compilations
from hpsde.base.program_memory import make_room

mapped, most = Path(sys.argv[1], "maps"), Path(sys.argv[1], "max_map_count")
most.write_text("200")
double, x = jax.jit(lambda x: 2.0 * x), jnp.ones(3)
double(x)
for taken in (99, 100):
    mapped.write_text("a piece of memory\\n" * taken)
    forgotten = make_room(mapped, most)
    with count_compilations() as compiled:
        double(x)
    print(taken, forgotten, compiled.count > 0)
"""


def test_programs_are_forgotten_from_half_of_the_room_on(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HALF_FULL, str(tmp_path)], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["99 False False", "100 True True"]


def test_where_the_system_does_not_say_nothing_is_forgotten(tmp_path):
    assert not make_room(tmp_path / "none", tmp_path / "none")
