"""Settings: defaults that hold, names that exist, numbers in range, and errors that help."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from hpsde import HpsdeError, InputError, Settings, UnknownNameError
from hpsde.base.checks import check_count
from hpsde.gp.warp import WARPS
from hpsde.settings import (
    BASES,
    BEHAVIOURS,
    DENSITIES,
    DEVIATIONS,
    GP_AXES,
    GREEDY,
    WEIGHT_SUMS,
    changed_settings,
)
from hpsde.steps.features import FEATURE_NAMES
from hpsde.steps.gating import GATES
from hpsde.steps.options import UPDATES
from hpsde.steps.weights import RETURN_FUNCTIONS

NAMES = {
    "f": RETURN_FUNCTIONS,
    "features": FEATURE_NAMES,
    "density": DENSITIES,
    "weight_sum": WEIGHT_SUMS,
    "update": tuple(UPDATES),
    "base": BASES,
    "behaviour": BEHAVIOURS,
    "gate": GATES,
    "deviation": DEVIATIONS,
    "greedy": GREEDY,
    "warp": WARPS,
    "gp_axes": GP_AXES,
}


def test_one_setting_says_what_the_paper_leaves_open():
    assert Settings().max_options == 10
    assert Settings() == Settings(max_options=10)


def test_there_are_at_most_thirty_settings_and_old_names_are_refused():
    assert len(fields(Settings)) <= 30
    for name in ("assignment", "target", "restarts", "target_ess", "gp_moments", "isotropic", "exploration"):
        with pytest.raises(UnknownNameError, match=f"unknown setting '{name}'"):
            changed_settings(Settings, None, {name: 1})


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        Settings().kappa = 2.0


@pytest.mark.parametrize("setting", NAMES)
def test_every_name_is_taken_and_any_other_lists_them(setting):
    assert getattr(Settings(), setting) in NAMES[setting]
    for name in NAMES[setting]:
        assert getattr(Settings(**{setting: name}), setting) == name
    with pytest.raises(UnknownNameError) as caught:
        Settings(**{setting: "nonsense"})
    assert caught.value.valid == NAMES[setting]
    for name in ("'nonsense'", *NAMES[setting]):
        assert name in str(caught.value)


def test_every_setting_that_is_a_name_was_tried():
    assert {each.name for each in fields(Settings) if isinstance(each.default, str)} == set(NAMES)


def numbers(kind=""):
    """The settings that are numbers, or None; or those of them that are of this kind."""
    found = [each for each in fields(Settings) if not isinstance(each.default, str | bool)]
    return [each for each in found if str(each.type).startswith(kind)]


@pytest.mark.parametrize("setting", [each.name for each in numbers("int")])
@pytest.mark.parametrize("value", [-1, 10**9])
def test_whole_numbers_out_of_range_are_refused(setting, value):
    with pytest.raises(InputError, match=rf"{setting} must .*lie between \d+ and \d+; got {value}"):
        Settings(**{setting: value})


@pytest.mark.parametrize("setting", [each.name for each in numbers("float")])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("-inf")])
def test_numbers_out_of_range_are_refused(setting, value):
    with pytest.raises(InputError, match=rf"{setting} must .*lie between .* got {value}"):
        Settings(**{setting: value})


def test_every_number_was_tried():
    assert len(numbers("int")) + len(numbers("float")) == len(numbers()) > 10


@pytest.mark.parametrize("setting", [each.name for each in numbers() if each.default is None])
def test_what_is_solved_for_by_default_can_be_fixed(setting):
    assert getattr(Settings(), setting) is None
    assert getattr(Settings(**{setting: 1}), setting) == 1


def test_functions_are_taken_for_f_and_features():
    settings = Settings(f=np.exp, features=np.cos)
    assert settings.f is np.exp
    assert settings.features is np.cos


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
