"""Compiled programs in the user's cache folder: kept by hpsde for itself, and only where the user says nothing else."""

import os
import subprocess
import sys

import pytest

import small
from hpsde.base import kept_programs
from patience import LONG

START = """
import sys, jax, jax.numpy as jnp
before = dict(jax.config.values)
import hpsde
from hpsde.base import kept_programs
from hpsde.base.compilations import count_compilations
kept_programs.LEAST_SECONDS = 0.0
x = jnp.ones(4)
users = jax.jit(lambda x: jnp.cos(x) + 1.0)
users(x)
"""
LEARN = (
    START
    + """
own = kept_programs.keeps_programs(jax.jit(lambda x: jnp.sin(x) @ x))
with kept_programs.keeping():
    own(x)
    own(x)
users(jnp.ones((4, 1)))
assert dict(jax.config.values) == before, "a JAX setting was changed"
with count_compilations() as again:
    own(x)
assert again.count == 0, "what was compiled inside is compiled again outside"
"""
)


def files(folder):
    """Names of the programs in the folder, by the functions they are of."""
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and file.name.startswith("jit_"))


def run(code, folder, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "HPSDE_", "XDG_"))}
    given = kept | {"JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(folder)} | environment
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_hpsde_compiles_is_kept_and_what_the_user_compiles_is_not(tmp_path):
    run(LEARN, tmp_path)
    (name,) = files(tmp_path)
    assert (tmp_path / "hpsde").is_dir()
    run(LEARN, tmp_path)
    assert files(tmp_path) == [name]
    told = "events = []\njax.monitoring.register_event_listener(lambda event, **_: events.append(event))\n"
    hits = "print(events.count('/jax/compilation_cache/cache_hits'))"
    assert run(LEARN.replace("own =", told + "own =") + hits, tmp_path).split() == ["1"]


@pytest.mark.parametrize(
    "said",
    [
        {"HPSDE_KEEP_COMPILED": "0"},
        {"JAX_ENABLE_COMPILATION_CACHE": "false"},
        {"JAX_COMPILATION_CACHE_DIR": "{folder}/own", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000"},
    ],
)
def test_nothing_is_kept_where_the_user_says_otherwise(said, tmp_path):
    run(LEARN, tmp_path, **{name: value.format(folder=tmp_path) for name, value in said.items()})
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "hpsde").write_text("in the way")
    run(LEARN, tmp_path)
    assert files(tmp_path) == []


def test_learners_keep_what_they_compile(monkeypatch):
    begun = []
    monkeypatch.setattr(kept_programs, "_begin", lambda: begun.append(True) or {})
    learner = small.make()
    proposal = learner.ask(small.draw_contexts(0, 128, 1))
    assert len(begun) == 1
    learner.tell(small.draw_contexts(0, 128, 1), proposal.parameters, proposal.parameters[:, 0])
    monkeypatch.setattr(type(learner), "_estimate", lambda *_: pytest.fail("far enough"))
    with pytest.raises(pytest.fail.Exception, match="far enough"):
        learner.update()
    assert len(begun) == 2
    assert kept_programs._state["depth"] == 0
