"""Plans that change: more rollouts, other settings. What was learned before stays as it was, to the bit."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde.cli import main
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.latent import Latent
from hpsde.steps.numbering import number_options
from hpsde.steps.remembering import with_slots
from hpsde.steps.state import State


@pytest.fixture
def run(tmp_path):
    with stored.create(tmp_path / "run") as run:
        yield run


# In the books


def test_more_rollouts_are_planned(run, capsys):
    config = (run.folder / "config.json").read_bytes()
    assert main(["extend", str(run.folder), "--rollouts", "300"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["rollouts"] == run.status().rollouts == 300
    assert [(each["kind"], each["rollouts"], each["before"]) for each in status["events"]] == [("extended", 300, 192)]
    run.extend(300)  # nothing new
    assert len(run.store.events()) == 1
    assert main(["extend", str(run.folder), "--rollouts", "299"]) == 2
    assert "this run has 300; expected at least as many, got 299" in capsys.readouterr().err
    with hpsde.Run.open(run.folder) as other:
        assert other.config.rollouts == 300
        assert other.config.expected_rollouts == 192
    assert (run.folder / "config.json").read_bytes() == config


def test_settings_are_changed(run, capsys):
    assert main(["set", str(run.folder), "max_options=6", "kappa=2.5"]) == 0
    (event,) = json.loads(capsys.readouterr().out)["events"]
    assert event["settings"] == {"max_options": 6, "kappa": 2.5}
    assert (event["before"], event["step"]) == ({"max_options": 4, "kappa": 1.0}, 0)
    assert run.learner().settings.max_options == 6
    run.set(kappa=2.5)  # nothing new
    assert len(run.store.events()) == 1
    run.set(features="linear")  # nothing has been learned yet
    assert run.learner().settings.features.kind == "linear"
    assert run.config.settings["features"] == "linear"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected settings as NAME=VALUE"),
        (["max_options"], "a setting is NAME=VALUE"),
        (["max_option=6"], "Did you mean 'max_options'?"),
        (["max_options=0"], "max_options must lie between"),
        (["bounds=none"], "unknown setting 'bounds'"),
    ],
)
def test_what_cannot_be_set_says_why_and_changes_nothing(words, message, run, capsys):
    assert main(["set", str(run.folder), *words]) == 2
    assert message in capsys.readouterr().err
    assert run.store.events() == []
    assert run.learner().settings.max_options == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, r"bounds: expected \(low, high\), numbers for each; got 0.5"),
        (["low", "high"], r"bounds: expected \(low, high\), numbers for each; got \['low', 'high'\]"),
    ],
)
def test_bounds_of_another_kind_say_so(value, message, run):
    with pytest.raises(hpsde.InputError, match=message):
        run.set(bounds=value)
    assert run.store.events() == []


def test_an_array_of_one_number_is_a_number(run):
    run.set(kappa=np.array(2.5))
    assert run.learner().settings.gate.kappa == 2.5


def test_plans_are_not_changed_while_the_run_is_running(run):
    with hpsde.Run.open(run.folder) as other, run.lock.hold("run"):
        for attempt in (lambda: other.extend(300), lambda: other.set(kappa=2.0)):
            with pytest.raises(hpsde.RunLockedError):
                attempt()
    assert run.store.events() == []


@pytest.mark.parametrize("content", ['{"step": 1}', '{"step": 1, "settings": 3}', '{"step": -1, "settings": {}}'])
def test_damaged_changes_are_refused(content, run):
    run.set(kappa=2.0)
    stored.change(run.folder, f"UPDATE events SET content = '{content}'")
    stored.sign(run.folder)
    with pytest.raises(hpsde.FileFormatError, match="an event is damaged"):
        hpsde.Run.open(run.folder)


# Learned


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    return stored.learn_once(tmp_path_factory.mktemp("started") / "run")


def test_a_run_whose_settings_change_is_the_same_however_it_is_opened(started, tmp_path):
    """Options keep their numbers, and steps before the change their settings."""
    seen = []
    for how in ("keep", "reopen", "delete"):
        folder = tmp_path / how
        shutil.copytree(started, folder)
        run = hpsde.Run.open(folder)
        run.set(max_options=6, scouts=0.25)
        for number in (2, 3):
            if how != "keep":
                run.close()
                if how == "delete":
                    (folder / "learner.npz").unlink()
                run = hpsde.Run.open(folder)
            stored.tell(run, run.ask(small.draw_contexts(number, 32, 1)))
        policy = run.policy
        assert len(policy.kept) == 6
        records = run.store.steps()
        assert set(records[0]["numbers"]) & set(records[1]["numbers"])
        seen.append((folder / "policy.npz").read_bytes())
        run.close()
    assert seen[0] == seen[1] == seen[2]


def test_what_the_first_step_has_decided_is_not_changed(started, tmp_path):
    shutil.copytree(started, tmp_path / "run")
    with hpsde.Run.open(tmp_path / "run") as run:
        with pytest.raises(hpsde.InputError, match=r"features: the first learning step .* hpsde import"):
            run.set(features="linear")
        assert run.store.events() == []


# The state of the options


def state_of(numbers):
    """A state whose slots hold options of these names."""
    numbers = np.array(numbers)
    count = len(numbers)
    options = LinearGaussian(jnp.zeros((count, 1)), jnp.zeros((count, 1, 1)), jnp.ones((count, 1, 1)))
    return State(options=options, kept=numbers > 0, numbers=numbers, next_number=8, searched=100)


def test_with_fewer_slots_all_options_are_new():
    state = with_slots(state_of([3, 0, 7, 5]), 2)
    assert state.found is None
    assert state.options is None
    assert state.searched == 0
    kept = np.array([True, True])
    found = Latent(kept, np.ones((2, 4)), 0.0, False)
    numbers, born, died = number_options(found, state)
    assert (numbers.tolist(), born, died) == ([8, 9], (8, 9), (3, 7, 5))


def test_with_as_many_slots_nothing_changes():
    state = state_of([3, 0, 7, 5])
    assert with_slots(state, 4) is state
    assert with_slots(State(), 6) == State()
