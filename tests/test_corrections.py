"""Rollouts that were told wrongly: corrected, with what was told before in the books, and learned from anew."""

import json
import shutil
import warnings

import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde.cli import main
from hpsde.runs.backup import check
from hpsde.runs.far_returns import far_returns, may_be_far
from hpsde.runs.ledger import option_lives
from hpsde.runs.run import Asked

pytestmark = pytest.mark.usefixtures("remembered")

WRONG = 1000.0


@pytest.fixture
def run(tmp_path):
    with stored.create(tmp_path / "run") as run:
        yield run


@pytest.fixture(scope="module")
def mistyped(tmp_path_factory):
    """A run that has learned twice from a wrong return of rollout 5, told in the first of two batches; 32 are open."""
    folder = tmp_path_factory.mktemp("mistyped") / "run"
    with stored.create(folder) as run:
        asked = run.ask(small.draw_contexts(0, 128, 1))
        stored.tell(run, asked[:4] + asked[5:])
        with pytest.warns(hpsde.FarReturnWarning):
            run.tell(5, WRONG)
        for number in (1, 2):
            asked = run.ask(small.draw_contexts(number, 32, 1))
            if number == 1:
                stored.tell(run, asked)
    return folder


@pytest.fixture
def folder(mistyped, tmp_path):
    shutil.copytree(mistyped, tmp_path / "run")
    return tmp_path / "run"


def right_return(run, number=5):
    """What `noisy_ridges` says of a rollout."""
    rows = run.rollouts()
    place = rows.id == number
    return float(stored.noisy_ridges(rows.contexts[place], rows.parameters[place], rows.seed[place])[0])


# In the books


def test_what_was_told_before_stays_in_the_books(run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2, 3], [1.0, WRONG, 3.0])
    run.tell(4, failed="motor fault")
    run.correct(2, 2.0, reason="typed 1000")
    run.correct(3, failed="fell over")
    run.correct(4, 4.5)
    run.correct(1, drop=True, reason="a visitor")
    np.testing.assert_array_equal(run.rollouts().returns, [np.nan, 2.0, np.nan, 4.5, np.nan, np.nan])
    assert run.status().done == 2
    reasons = stored.look(run.folder, "SELECT reason FROM rollouts WHERE status = 'failed'")
    assert reasons == [("dropped: a visitor",), ("fell over",)]
    found = stored.look(run.folder, "SELECT kind, content FROM events ORDER BY event")
    assert [kind for kind, _ in found] == ["corrected"] * 4
    first = json.loads(found[0][1])
    assert first["before"] == {"status": "done", "return": WRONG, "reason": None}
    assert first["after"] == {"status": "done", "return": 2.0, "reason": None}
    shown = run.status().as_dict()["events"]
    assert [(each["event"], each["rollout"], each["reason"]) for each in shown][:2] == [
        (1, 2, "typed 1000"),
        (2, 3, None),
    ]
    assert shown[2]["before"]["reason"] == "motor fault"
    assert shown[0]["at"].startswith("2")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((9, 1.0), {}, hpsde.AskTellError, "no rollout 9 in this run; rollouts 1 to 6"),
        ((6, 1.0), {}, hpsde.AskTellError, "rollout 6 has not been told yet"),
        ((1, 1.0), {}, hpsde.AskTellError, "rollout 1 has been told so already, the return 1.0"),
        ((1,), {}, hpsde.InputError, "expected one of the three"),
        ((1, 2.0), {"drop": True}, hpsde.InputError, "expected one of the three"),
        ((1, 2.0), {"failed": "x"}, hpsde.InputError, "expected one of the three"),
        ((1, np.nan), {}, hpsde.InputError, "finite"),
        ((1, "high"), {}, hpsde.InputError, "must be numbers"),
        ((0, 2.0), {}, hpsde.InputError, "at least 1"),
        (([1, 2], 2.0), {}, hpsde.InputError, "whole number"),
    ],
)  # fmt: skip
def test_what_cannot_be_corrected_says_why_and_changes_nothing(arguments, options, error, message, run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2], [1.0, 2.0])
    before = run.store.table()
    with pytest.raises(error, match=message):
        run.correct(*arguments, **options)
    assert run.store.table() == before
    assert run.store.events() == []


def test_a_learning_step_keeps_two_rollouts(run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2], [1.0, 2.0])
    run.store.add_step(1, np.array([1, 2]), {})
    with pytest.raises(hpsde.AskTellError, match="learning step 1 would have 1 rollouts that did not fail"):
        run.correct(1, drop=True)
    assert run.store.events() == []


def test_corrected_failures_are_not_tried_again(run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2], [1.0, 2.0])
    run.tell(3, failed="motor fault")
    run.correct(1, drop=True)
    assert run.store.reopen_failed() == 1
    assert run.status().open == (3, 4, 5, 6)


# Learned anew


def test_before_a_learning_step_a_correction_leaves_no_trace_in_the_policy(tmp_path):
    """The policy is that of a run that was told the right return at once, to the byte."""
    files = []
    for wrong in (False, True):
        with stored.create(tmp_path / f"{wrong}") as run:
            asked = run.ask(small.draw_contexts(0, 128, 1))
            stored.tell(run, asked[:4] + asked[5:])
            if wrong:
                with pytest.warns(hpsde.FarReturnWarning):
                    run.tell(5, WRONG)
                run.correct(5, right_return(run))
            else:
                run.tell(5, right_return(run))
            run.policy  # noqa: B018 - learns
        files.append((tmp_path / f"{wrong}/policy.npz").read_bytes())
    assert files[0] == files[1]


def test_after_the_first_learning_step_neither(tmp_path):
    """Where nothing was proposed since, the step done anew is the one that should have been."""
    files = []
    for wrong in (False, True):
        with stored.create(tmp_path / f"{wrong}") as run:
            asked = run.ask(small.draw_contexts(0, 128, 1))
            stored.tell(run, asked[:4] + asked[5:])
            value = right_return(run)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", hpsde.FarReturnWarning)
                run.tell(5, WRONG if wrong else value)
            run.policy  # noqa: B018 - learns
            if wrong:
                old = run.store.steps()
                run.correct(5, value, reason="typed 1000")
                assert [event.kind for event in run.store.events()] == ["corrected", "relearned"]
                assert run.store.events()[1]["records"]["1"] == old[0]
                assert run.store.steps()[0]["batch_mean_return"] < 2.0 < old[0]["batch_mean_return"]
            asked = run.ask(small.draw_contexts(1, 32, 1))
            stored.tell(run, asked)
            run.policy  # noqa: B018
        files.append((tmp_path / f"{wrong}/policy.npz").read_bytes())
    assert files[0] == files[1]


def go_on(run, number):
    """Another batch is asked and told; the bytes of the policy and what was asked."""
    asked = run.ask(small.draw_contexts(number, 32, 1))
    stored.tell(run, asked)
    run.policy.save(run.folder / "seen.npz")
    return (run.folder / "seen.npz").read_bytes(), [each.parameters.tolist() for each in asked]


def test_a_corrected_run_goes_on_to_the_same_bytes_however_it_is_opened(folder, tmp_path):
    """At once; opened again; without its state; killed before it had learned anew."""
    seen = []
    for how in ("keep", "reopen", "delete", "killed"):
        shutil.copytree(folder, tmp_path / how)
        run = hpsde.Run.open(tmp_path / how)
        proposed = run.rollouts().parameters
        if how == "killed":
            run.learner()
            run.note_correction(5, right_return(run))
        else:
            run.correct(5, right_return(run))
        if how != "keep":
            run.close()
            if how == "delete":
                (tmp_path / how / "learner.npz").unlink()
            run = hpsde.Run.open(tmp_path / how)
        np.testing.assert_array_equal(run.rollouts().parameters, proposed)
        rows = run.rollouts()
        stored.tell(run, [Asked(i, s, xi, 0, 0, 0.0, seed) for i, s, xi, seed in open_rollouts(rows)])
        seen.append(go_on(run, 3))
        assert run.status().steps == 4
        assert [event.kind for event in run.store.events()] == ["corrected", "relearned"]
        small.assert_sound(run.policy)
        run.close()
    assert seen[0] == seen[1] == seen[2] == seen[3]


def open_rollouts(rows):
    still = rows.status == "asked"
    return zip(rows.id[still].tolist(), rows.contexts[still], rows.parameters[still], rows.seed[still], strict=True)


def test_policies_learned_from_the_wrong_return_are_known_to_be_replaced(folder):
    with hpsde.Run.open(folder) as run:
        before = run.rollouts()
        assert set(before.policy) == {0, 1, 2}
        run.correct(5, right_return(run))
        after = run.rollouts()
        np.testing.assert_array_equal(after.policy, before.policy)
        np.testing.assert_array_equal(after.behaviour == -2, before.policy > 0)
        assert set(after.number[before.policy > 0]) == {0}
        learner = run.learner()
        assert set(learner.rollouts.behaviour) == {0, -2}
        assert learner._history.behaviours == {}
        asked = run.ask(small.draw_contexts(7, 16, 1))
        made = [each.number > 0 for each in asked]
        assert any(made)
        np.testing.assert_array_equal(run.rollouts().behaviour[-16:], np.where(made, 2, 0))


def test_a_correction_of_the_second_step_leaves_the_first_as_it_was(folder):
    with hpsde.Run.open(folder) as run:
        records = run.store.steps()
        number = int(run.rollouts().id[run.rollouts().step == 2][0])
        run.correct(number, failed="not plugged in")
        assert run.store.steps()[0] == records[0]
        assert run.store.steps()[1]["failed"] == 1
        behaviour, policy = run.rollouts().behaviour, run.rollouts().policy
        np.testing.assert_array_equal(behaviour, np.where(policy == 2, -2, policy))
        assert list(run.learner()._history.behaviours) == [1]


def test_options_that_a_wrong_return_had_merged_come_back(folder):
    with hpsde.Run.open(folder) as run:
        run.correct(5, right_return(run))
        means = sorted(float(option.mean([[1.0]])[0, 0]) for option in run.policy.options)
        np.testing.assert_allclose([means[0], means[-1]], [-0.5, 0.7], atol=0.15)


def test_another_process_notices_a_correction(folder):
    with hpsde.Run.open(folder) as run, hpsde.Run.open(folder) as other:
        other.learner()
        run.correct(5, right_return(run))
        assert other.learner().rollouts.returns[4] == right_return(run)


def test_a_run_of_a_task_is_corrected_and_resumed(tmp_path):
    """Tables of learning steps are written anew, the result at the next end."""
    with stored.create(tmp_path / "run", rollouts=160) as run:
        run.learn(stored.make_task(), progress=False)
        (tmp_path / "run/result.json").write_text("{}")
        before = (tmp_path / "run/iterations.csv").read_bytes()
        run.correct(7, -5.0)
        assert (tmp_path / "run/iterations.csv").read_bytes() != before
        assert not (tmp_path / "run/result.json").exists()
        assert "task_seconds" in run.store.steps()[0]
        run.learn(stored.make_task(), rollouts=192, progress=False)
        assert run.status().done == 192


# In the shell


def test_the_command_corrects(run, capsys):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell(1, WRONG)
    assert main(["correct", str(run.folder), "1", "--return", "-1.5", "--reason", "typed"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["best_return"], status["events"][0]["before"]["return"]) == (-1.5, WRONG)
    assert main(["correct", str(run.folder), "1", "--drop"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 1
    assert main(["correct", str(run.folder), "1"]) == 2
    assert main(["correct", str(run.folder), "2", "--return", "1"]) == 1
    assert "has not been told yet" in capsys.readouterr().err


# Returns far outside all others


def test_a_return_far_outside_all_others_is_taken_with_a_warning(run, capsys):
    run.ask(small.draw_contexts(0, 30, 1))
    run.tell(list(range(1, 13)), np.linspace(8.0, 12.0, 12))
    run.tell(13, 13.9)
    with pytest.warns(
        hpsde.FarReturnWarning, match=r"return 1000 of rollout 14 .* between 8 and 13.9.*correct .* 14 --r"
    ):
        run.tell(14, WRONG)
    run.tell(15, 900.0)  # there has been one like it
    assert run.rollouts().returns[13] == WRONG
    assert main(["tell", str(run.folder), "16", "--return", "-30000"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("hpsde: warning: the return -30000 of rollout 16 is far outside all others")
    assert json.loads(captured.out)["done"] == 16


def test_far_returns_are_told_apart_whatever_the_units():
    generator = np.random.default_rng(0)
    for draw in (generator.normal, generator.uniform, generator.exponential):
        values = draw(size=400)
        for shift, scale in ((0.0, 1.0), (1e6, 3.0), (-5.0, -1e-3)):
            told = shift + scale * values
            assert sum(far_returns(told[:i], told[i : i + 1]).any() for i in range(10, 400)) == 0
            spread = np.ptp(told)
            assert far_returns(told, np.array([told.max() + 6.0 * spread, told[0]])).tolist() == [True, False]
            assert far_returns(told[:0], np.append(told, told.min() - 6.0 * spread)).tolist() == [False] * 400 + [True]


@pytest.mark.parametrize(("draw", "most"), [("normal", 0.0), ("uniform", 0.0), ("exponential", 0.02)])
def test_few_runs_are_warned_of_falsely(draw, most):
    generator = np.random.default_rng(1)
    values = getattr(generator, draw)(size=(200, 400))
    warned = [any(far_returns(row[:i], row[i : i + 1])[0] for i in range(10, 400)) for row in values]
    assert np.mean(warned) <= most


def test_extremes_rule_out_what_is_not_far():
    """Whatever is far may be far by the extremes; returns that rise step by step may not."""
    generator = np.random.default_rng(0)
    ruled_out = 0
    for _ in range(300):
        before = generator.standard_t(1.5, size=int(generator.integers(10, 40)))
        told = before.mean() + generator.normal(0.0, 20.0, 3)
        possible = may_be_far(before.min(), before.max(), told)
        assert possible or not far_returns(before, told).any()
        ruled_out += not possible
    assert ruled_out > 100
    assert not may_be_far(0.0, 1.0, np.array([2.0]))
    assert not may_be_far(1.0, 1.0, np.array([1000.0]))  # as `far_returns`, where all are alike


def test_few_or_equal_returns_say_nothing_of_the_next():
    assert not far_returns(np.arange(9.0), np.array([1000.0])).any()
    assert not far_returns(np.zeros(50), np.array([1.0])).any()  # the first success
    assert not far_returns(np.zeros(0), np.append(np.zeros(50), 1.0)).any()
    assert far_returns(np.arange(10.0), np.array([1000.0, 900.0])).all()


# Damaged rows


def test_a_damaged_rollout_can_be_dropped(run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2, 3], [1.0, 2.0, 3.0])
    stored.change(
        run.folder, 'UPDATE rollouts SET "return" = 9.0 WHERE id = 2', "UPDATE rollouts SET seed = 5 WHERE id = 4"
    )
    for number in (2, 4):
        with pytest.raises(hpsde.FileFormatError, match=rf"rollout {number} does .*hpsde correct RUN {number} --drop"):
            run.store.rows_of([number])
        with pytest.raises(hpsde.FileFormatError, match=f"rollout {number} does not fit its checksum"):
            run.correct(number, 2.5)
        run.correct(number, drop=True)
    assert run.rollouts().status.tolist() == ["done", "failed", "done", "failed", "asked", "asked"]
    assert run.store.counts() == {"asked": 2, "done": 2, "failed": 2}
    assert check(run)["wrong"] == []


def test_a_rollout_that_is_damaged_beyond_that_is_not(run):
    run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2, 3], [1.0, 2.0, 3.0])
    stored.change(run.folder, "UPDATE rollouts SET parameters = x'00' WHERE id = 2")
    with pytest.raises(hpsde.FileFormatError, match="parameters of rollout 2 has 1 bytes"):
        run.correct(2, drop=True)
    assert run.store.events() == []


def test_what_would_run_code_that_the_folder_names_is_refused_before_anything_is_written(folder, capsys):
    """A task of one's own alone says where the first parameters come from, and learning anew needs that."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"problem": {"function": "nobody:task"}}))
    (folder / "old.csv").write_text("context_1,parameter_1,return\n1,0.5,1\n")
    corrected, others = ["correct", str(folder), "5", "--return", "1"], ["import", str(folder), str(folder / "old.csv")]
    for arguments in (corrected, others, ["set", str(folder), "max_options=3"]):
        assert main(arguments) == 2
        assert "--trust" in capsys.readouterr().err
        assert main([*arguments, "--trust"]) == 2
        assert "nobody" in capsys.readouterr().err
    with hpsde.Run.open(folder) as run:
        assert run.status().events == ()
        assert run.rollouts().returns[4] == WRONG


def test_no_option_lives_on_that_the_last_step_has_not():
    """A learner that begins again in other units, as it may after a correction, says of nobody that they died."""
    records = [
        {"rollouts": 19, "numbers": [1, 2], "born": [1, 2], "died": []},
        {"rollouts": 23, "numbers": [1], "born": [1], "died": []},
        {"rollouts": 27, "numbers": [1, 4], "born": [4], "died": []},
    ]
    lives = {life["number"]: (life["born"], life["died"]) for life in option_lives(records)}
    assert lives == {1: (23, None), 2: (19, 23), 4: (27, None)}
