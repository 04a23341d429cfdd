"""What is learned on small runs is what it was (tests/digests.py): some of them here, within rounding."""

import json

import numpy as np
import pytest

import digests
import handmade
from hpsde.methods import METHODS
from hpsde.tasks import task_names

ROWS = json.loads(digests.ROWS.read_text(encoding="utf-8"))
# A relative change of all returns by 1e-11 changes these numbers by less than 1e-5; elsewhere it may decide a choice.
CHOSEN = [f"{method} toy-double" for method in ("hpsde-reps-gp", "paper", "hireps", "creps")]


@pytest.mark.parametrize("name", CHOSEN)
def test_small_runs_learn_what_they_learned(name):
    found, expected = digests.row(digests.learned(*digests.runs()[name])), dict(ROWS[name])
    found.pop("digest"), expected.pop("digest")
    assert found == pytest.approx(expected, rel=1e-4), "if that is wanted: python tests/digests.py --write"


def test_there_is_a_row_for_every_run_every_method_and_every_task():
    assert list(ROWS) == list(digests.runs())
    assert tuple(METHODS) == digests.METHODS
    # Pictures have thousands of numbers, and are learned as the task behind them.
    tasks = {name for name in task_names() if "image" not in name}
    assert tasks <= {task for _, task, _ in digests.runs().values()}


def test_the_digest_is_that_of_the_content_alone(tmp_path):
    handmade.by_hand("gp").save(tmp_path / "policy.npz")
    digest = digests.digest(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz") as file:
        arrays = dict(file)

    def digest_of(arrays):
        np.savez_compressed(tmp_path / "other.npz", **arrays)
        return digests.digest(tmp_path / "other.npz")

    assert digest_of(dict(reversed(arrays.items()))) == digest
    one_bit = arrays | {"option_b": np.nextafter(arrays["option_b"], np.inf)}
    other_name = {name.replace("option_b", "option_c"): array for name, array in arrays.items()}
    other_shape = arrays | {"option_b": arrays["option_b"].reshape(1, -1)}
    assert digest not in {digest_of(one_bit), digest_of(other_name), digest_of(other_shape)}


def test_runs_that_differ_are_named():
    one = {"same": {"digest": "a", "options": 1}, "changed": {"digest": "a", "options": 1}, "gone": {"digest": "a"}}
    other = {"same": {"digest": "a", "options": 1}, "changed": {"digest": "b", "options": 2}}
    assert digests.different(one, other) == ["changed: options 1 -> 2", "gone: only before"]
