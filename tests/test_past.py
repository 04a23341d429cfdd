"""Policies of past learning steps: kept, thinned, and forgotten where a correction has changed the past."""

import numpy as np
import pytest

import hpsde
import small
from hpsde.errors import FileFormatError
from hpsde.policy.file import policy_of_bytes
from hpsde.runs import past
from hpsde.runs.past import PastPolicies
from test_report import learned_run


@pytest.fixture
def kept(tmp_path):
    return PastPolicies(tmp_path / "past.policies")


def test_the_newest_kept_policy_that_is_not_later_is_read(kept):
    for step in (1, 2, 5):
        kept.keep(step, b"policy %d" % step)
    assert kept.steps() == [1, 2, 5]
    assert [kept.read(step) for step in (0, 1, 4, 5, 9)] == [None, b"policy 1", b"policy 2", b"policy 5", b"policy 5"]
    kept.keep(2, b"another")  # learned anew: what came after no longer holds
    assert (kept.steps(), kept.read(9)) == ([1, 2], b"another")


def test_what_a_kill_left_unfinished_is_cut_off(kept):
    kept.keep(1, b"first")
    kept.keep(2, b"second")
    whole = kept.path.read_bytes()
    for end in range(len(whole) - 1, len(whole) - len(b"second") - past.HEAD.size, -1):
        kept.path.write_bytes(whole[:end])
        assert kept.steps() == [1]
        kept.keep(2, b"second")
        assert kept.path.read_bytes() == whole


def test_a_flipped_bit_is_found(kept):
    kept.keep(1, b"policy")
    content = bytearray(kept.path.read_bytes())
    content[-1] ^= 1
    kept.path.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match="is damaged; remove it"):
        kept.read(1)


def test_a_run_keeps_no_more_than_there_is_room_for_spread_evenly(kept, monkeypatch):
    monkeypatch.setattr(past, "LARGEST_BYTES", 20_000)
    for step in range(1, 301):
        kept.keep(step, bytes([step % 256]) * 400)
        assert kept.path.stat().st_size <= 20_000
    steps = np.array(kept.steps())
    assert 20 <= len(steps) <= 47
    assert (steps[0], steps[-1]) == (1, 300)
    assert np.diff(steps).max() <= 30
    assert all(kept.read(step) == bytes([step % 256]) * 400 for step in steps.tolist())
    kept.keep(301, bytes(20_000))  # what is too large is left out
    assert kept.steps()[-1] == 300


def test_a_run_keeps_the_policy_of_every_step_and_a_correction_forgets_those_it_changes(tmp_path):
    folder = learned_run(tmp_path / "run")
    kept = PastPolicies(folder / "past.policies")
    assert kept.steps() == [1, 2]
    newest = hpsde.load_policy(folder / "policy.npz")
    small.assert_same_bits(policy_of_bytes(kept.read(2), "it"), newest)
    first = policy_of_bytes(kept.read(1), "it")
    assert len(first.known_contexts) < len(newest.known_contexts)
    with hpsde.Run.open(folder) as run:
        used = run.rollouts()
        run.correct(int(used.id[(used.step == 2) & (used.status == "done")][0]), -5.0)
    assert kept.steps() == [1, 2]
    assert (folder / "policy.npz").read_bytes() == kept.read(2)
    small.assert_same_bits(policy_of_bytes(kept.read(1), "it"), first)
    with hpsde.Run.open(folder) as run:
        run.correct(1, -6.0)
    assert kept.steps() == [2]  # the policy of the first step is not made twice
    kept.path.unlink()
    with hpsde.Run.open(folder) as run:  # a run does without it
        assert run.policy is not None
