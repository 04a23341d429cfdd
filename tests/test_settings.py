"""Settings: defaults that hold, names that exist, numbers in range, and errors that help."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

import hpsde
from hpsde import RWR, HpsdeError, InputError, Settings, UnknownNameError, Weights
from hpsde.base.checks import check_count
from hpsde.base.groups import Group, Strategy, changed, check_setting, described, full_name, named
from hpsde.learners.hireps import HiREPSSettings
from hpsde.settings import OLD_NAMES, changed_settings, short_names, values_of

FLAT = {  # the names that settings had before there were groups, with their defaults
    "max_options": 10,
    "features": "automatic",
    "feature_count": None,
    "trend": True,
    "whitening": True,
    "f": "advantage",
    "temperature": None,
    "kl_bound": 1.5,
    "behaviour": "mixture",
    "flattening": None,
    "density": "options",
    "weight_sum": "ess",
    "embedding_dimensions": 0,
    "update": "reps",
    "base": "weighted",
    "epsilon": 3.0,
    "support": 4.0,
    "match_squares": True,
    "model_step": True,
    "refine": True,
    "ridge": None,
    "gate": "gp",
    "kappa": 1.0,
    "deviation": "mean",
    "greedy": "cautious",
    "exploration_temperature": 4.0,
    "scouts": 0.5,
    "warp": "clip",
    "gp_axes": "automatic",
    "gp_max_points": 1536,
}
OTHERS = {  # another value for each
    **{name: not value for name, value in FLAT.items() if isinstance(value, bool)},
    **{name: value + 1 for name, value in FLAT.items() if isinstance(value, int) and not isinstance(value, bool)},
    **{name: 0.75 * value for name, value in FLAT.items() if isinstance(value, float)},
    **{name: 1 for name, value in FLAT.items() if value is None},
    "features": "linear",
    "f": "rank",
    "behaviour": "own",
    "density": "vb",
    "weight_sum": "n",
    "update": "rwr",
    "base": "assigned",
    "gate": "softmax",
    "deviation": "return",
    "greedy": "expected",
    "warp": "rank",
    "gp_axes": "few",
}


def groups_of(settings):
    """The settings themselves and all groups in them."""
    inside = [value for value in vars(settings).values() if isinstance(value, Group)]
    return [settings, *(each for group in inside for each in groups_of(group))]


EVERY = [*groups_of(Settings()), *groups_of(HiREPSSettings()), RWR(), hpsde.Softmax(), hpsde.Marginal()]
FIELDS = [(group, each) for group in EVERY for each in fields(group) if not isinstance(each.default, Group)]
NAMED = [(group, each) for group, each in FIELDS if each.metadata["choices"]]
NUMBERS = [(group, each) for group, each in FIELDS if not isinstance(each.default, str | bool)]


def field_id(value):
    return value.name if hasattr(value, "metadata") else type(value).__name__


def test_one_setting_says_what_the_paper_leaves_open():
    assert Settings().max_options == 10
    assert Settings() == Settings(max_options=10)


def test_there_are_about_thirty_settings_and_old_names_are_refused():
    assert len(named(Settings())) <= 31
    for name in ("assignment", "target", "restarts", "target_ess", "gp_moments", "isotropic", "exploration"):
        with pytest.raises(UnknownNameError, match=f"unknown setting '{name}'"):
            changed_settings(Settings, None, {name: 1})


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        Settings().gate.kappa = 2.0
    with pytest.raises(FrozenInstanceError):
        Settings().max_options = 2


# ---------------------------------------------------------------- names


def test_flat_names_say_the_same_as_ever():
    assert short_names(Settings()) == FLAT | {"options": "linear"}
    assert OTHERS.keys() == FLAT.keys()


@pytest.mark.parametrize("name", FLAT)
def test_a_setting_is_changed_by_its_flat_name_by_its_full_name_and_in_its_group(name):
    value, full = OTHERS[name], full_name(Settings(), name, OLD_NAMES)
    by_name = Settings(**{name: value})
    assert by_name == Settings(**{full: value}) != Settings()
    assert by_name == changed_settings(Settings, None, {name: value})
    assert {each for each in FLAT if short_names(by_name).get(each) != FLAT[each]} - {
        "match_squares",  # of REPS alone, and the next four of the Gaussian process
        *("kappa", "deviation", "greedy", "exploration_temperature"),
    } | {name} == {name}
    assert next(iter(values_of(by_name, [name]).items())) == (name, value)
    group, _, own = full.rpartition(".")
    if group:
        before = getattr(Settings(), group)
        assert by_name == Settings(**{group: changed(before, {own: value})})


def test_a_strategy_by_its_name_keeps_what_it_shares_and_as_an_object_is_as_it_says():
    start = Settings(epsilon=1.0, base="assigned", match_squares=False)
    by_name = changed_settings(Settings, start, {"update": "rwr"})
    assert by_name.update == RWR(epsilon=1.0, base="assigned")
    assert by_name == changed_settings(Settings, start, {"update.kind": "rwr"})
    assert changed_settings(Settings, start, {"update": RWR(support=0.0)}).update == RWR(support=0.0)
    assert changed_settings(Settings, start, {"update": "reps"}) == start


def test_groups_come_before_the_settings_in_them_whatever_the_order():
    one, other = Settings(epsilon=2.0, update="rwr"), Settings(update=RWR(), epsilon=2.0)
    assert one == other == changed_settings(Settings, None, {"update.epsilon": 2.0, "update": RWR()})
    assert one.update == RWR(epsilon=2.0)


def test_settings_of_a_strategy_that_is_not_taken_change_nothing_by_their_flat_name_alone():
    assert Settings(gate="softmax", kappa=2.0) == Settings(gate="softmax")
    with pytest.raises(UnknownNameError, match="unknown setting 'kappa'"):
        Settings(**{"gate": "softmax", "gate.kappa": 2.0})


@pytest.mark.parametrize("name", ["updat", "update.epsilo", "epsilo", "max_options.x", "weights.f.x", ""])
def test_what_there_is_not_is_said(name):
    with pytest.raises(UnknownNameError, match="unknown setting"):
        Settings(**{name: 1.0})


def test_the_paper_is_one_preset_that_differs_wherever_there_is_a_departure_to_take_back():
    before, paper = short_names(Settings()), short_names(Settings.paper())
    same = {name for name in before if before[name] == paper[name]}
    both = {
        "max_options",
        "features",
        "feature_count",
        "kl_bound",
        "update",
        "options",
        "gate",
        "kappa",
        "gp_max_points",
    }
    assert same == both
    assert hpsde.methods.METHODS["paper"].arguments["settings"] == Settings.paper()


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("group", "field"), NAMED, ids=field_id)
def test_every_choice_is_taken_and_any_other_lists_them(group, field):
    choices = field.metadata["choices"]
    assert field.default in choices
    for name in choices:
        assert getattr(type(group)(**{field.name: name}), field.name) == name
    with pytest.raises(UnknownNameError) as caught:
        type(group)(**{field.name: "nonsense"})
    assert caught.value.valid == choices
    for name in ("'nonsense'", *choices):
        assert name in str(caught.value)


@pytest.mark.parametrize("name", ["f", "behaviour", "update", "options", "gate"])
def test_every_strategy_is_taken_by_its_name_and_any_other_lists_them(name):
    full = full_name(Settings(), name)
    strategy = Settings()
    for part in full.split("."):
        strategy = getattr(strategy, part)
    assert isinstance(strategy, Strategy)
    assert len(strategy.known) > 1
    for kind in strategy.known:
        assert short_names(Settings(**{name: kind}))[name] == kind
    with pytest.raises(UnknownNameError) as caught:
        Settings(**{name: "nonsense"})
    assert caught.value.valid == tuple(strategy.known)
    with pytest.raises(UnknownNameError):
        Settings(**{name: 3})


@pytest.mark.parametrize(("group", "field"), NUMBERS, ids=field_id)
def test_numbers_out_of_range_are_refused(group, field):
    low, high = field.metadata["low"], field.metadata["high"]
    whole = "int" in str(field.type)
    outside = [low - 1] + ([] if high in (None, np.inf) else [high + 1])
    for value in [*outside, *(() if whole else (float("nan"), float("-inf")))]:
        with pytest.raises(InputError, match=rf"{field.name} must .*(lie between|at least) .*got {value}"):
            type(group)(**{field.name: value})
    for value in ("1", True, [1.0], *((1.5,) if whole else ())):
        with pytest.raises(InputError, match=f"{field.name} must be .*; got "):
            check_setting(field, value, field.name)


def test_every_setting_says_what_it_means_and_which_values_it_may_have():
    for group in EVERY:
        for line in described(group):
            assert line.meaning.endswith(".")
            assert line.values


@pytest.mark.parametrize("setting", [name for name, value in FLAT.items() if value is None])
def test_what_is_solved_for_by_default_can_be_fixed(setting):
    assert short_names(Settings(**{setting: 1}))[setting] == 1


def test_functions_are_taken_for_f_and_features():
    settings = Settings(f=np.exp, features=np.cos)
    assert settings.weights.f.function is np.exp
    assert settings == Settings(weights=Weights(f=np.exp), features=np.cos)
    assert settings.features.kind is np.cos


@pytest.mark.parametrize("group", ["weights", "return_model"])
def test_a_group_is_that_group(group):
    with pytest.raises(InputError, match=r"expected hpsde\.\w+\(\.\.\.\) or settings by name; got 'vb'"):
        Settings(**{group: "vb"})


def test_all_errors_are_of_one_family():
    for error in (InputError("x"), UnknownNameError("gate", "x", ("a",))):
        assert isinstance(error, HpsdeError)
        assert isinstance(error, ValueError)


@pytest.mark.parametrize("value", [1.0, "1", None, True, np.bool_(True), np.array([1]), 2.5, 0, -1])
def test_counts_are_whole_numbers(value):
    with pytest.raises(InputError, match="batch must be a whole number of at least 1; got"):
        check_count("batch", value, 1)


def test_counts_may_be_numpys():
    count = check_count("batch", np.int64(3), 1)
    assert count == 3
    assert type(count) is int
