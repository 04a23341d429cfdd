"""Strategies of a user's own, as CONTRIBUTING.md shows them: learned with, stored, and read again."""

import re
from pathlib import Path

import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde import FileFormatError, InputError, UnknownNameError
from hpsde.settings import short_names

pytestmark = pytest.mark.usefixtures("remembered")

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
EXAMPLES = {  # setting: its family, the name of the example's class, and a setting of its own
    "f": (hpsde.ReturnFunction, "Power", {"weights.f.power": 3.0}),
    "update": (hpsde.OptionUpdate, "Best", {"update.support": 1.0}),
    "gate": (hpsde.Gate, "Nearest", {}),
    "options": (hpsde.OptionPolicies, "Kinked", {"options.ridge": 0.1}),
    "behaviour": (hpsde.BehaviourDensity, "Alike", {}),
}


@pytest.fixture(scope="module")
def classes():
    """What the examples define, by name. Nobody knows their strategies afterwards."""
    before = {family: dict(family.known) for family, _, _ in EXAMPLES.values()}
    defined = {}
    for block in BLOCKS:
        exec(block, names := {"__name__": "of_a_user"})
        defined |= names
    yield defined
    for family, known in before.items():
        family.known.clear()
        family.known.update(known)


@pytest.fixture(params=EXAMPLES)
def example(request, classes):
    family, name, more = EXAMPLES[request.param]
    return request.param, family, classes[name], {request.param: name.lower()} | more


def test_there_is_a_short_example_for_each():
    assert len(BLOCKS) == len(EXAMPLES)
    assert all(3 < len(block.splitlines()) <= 30 for block in BLOCKS)


def test_it_is_learned_with_by_its_name_or_as_an_object(example):
    setting, family, kind, given = example
    learner = small.make(**given)
    assert short_names(learner.settings)[setting] == kind.name
    policy = small.run(learner).policy
    small.assert_sound(policy)
    own = {"f": {"power": 3.0}, "update": {"support": 1.0}, "options": {"ridge": 0.1}}
    made = family.known[kind.name](**own.get(setting, {}))
    assert isinstance(made, kind)
    small.assert_same_bits(small.run(small.make(**{setting: made})).policy, policy)
    default = small.learned().policy
    if setting == "gate":
        assert type(policy.gate).__name__ == "NearestGate"
    else:
        assert not np.array_equal(policy.option_means([[0.5]])[0], default.option_means([[0.5]])[0])


def test_it_is_stored_and_read_again_where_its_class_is_known_alone(example, tmp_path, monkeypatch):
    setting, family, kind, given = example
    task, path = stored.make_task(), tmp_path / "policy.npz"
    learned = hpsde.learn(task, seed=2, progress=False, **stored.SIZES, **given)
    learned.save(path)
    small.assert_same_bits(hpsde.load_policy(path), learned)
    with hpsde.Run.create(tmp_path / "run", task, seed=2, **stored.SIZES, **given) as run:
        run.learn(progress=False)
        assert run.config.settings[setting] == kind.name
    with hpsde.Run.open(tmp_path / "run", task=task) as again:
        small.assert_same_bits(again.policy, learned)
    monkeypatch.delitem(family.known, kind.name)
    with (
        pytest.raises(UnknownNameError, match=f"'{kind.name}'; valid are: "),
        hpsde.Run.open(tmp_path / "run", task=task) as again,
    ):
        again.policy  # noqa: B018 - it must be learned or read
    if setting in ("gate", "options"):
        message = rf"{setting} '{kind.name}' is none of .*: import the module that defines it first"
        with pytest.raises(FileFormatError, match=message):
            hpsde.load_policy(path)
    else:
        small.assert_same_bits(hpsde.load_policy(path), learned)


def test_a_name_is_taken_once_and_the_same_class_again_takes_its_place(classes):
    before = hpsde.OptionUpdate.known["best"]
    with pytest.raises(InputError, match=r"update: the name 'best' is taken by of_a_user\.Best"):
        type("Best", (hpsde.OptionUpdate,), {"__module__": "elsewhere"})
    again = type("Best", (before.__mro__[1],), {"__module__": "of_a_user", "__qualname__": "Best"})
    assert hpsde.OptionUpdate.known["best"] is again
    hpsde.OptionUpdate.known["best"] = before


def test_f_that_gives_no_numbers_is_said():
    class Bad(hpsde.ReturnFunction, listed=False):
        def log(self, returns):
            return returns + np.inf

    with pytest.raises(InputError, match="the return function 'bad' must give one number below infinity per return"):
        small.run(small.make(f=Bad()))
