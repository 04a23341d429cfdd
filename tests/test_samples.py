"""Files that earlier versions of hpsde wrote, kept in tests/samples with what those versions made of them."""

import json
from pathlib import Path

import numpy as np
import pytest

import hpsde
from hpsde.runs.config import read_config
from hpsde.runs.making import learner_of
from hpsde.settings import short_names
from hpsde.tasks import make_task

SAMPLES = Path(__file__).with_name("samples")
ANSWERS = json.loads((SAMPLES / "answers.json").read_text(encoding="utf-8"))
SETTINGS = json.loads((SAMPLES / "settings.json").read_text(encoding="utf-8"))


def test_every_sample_is_tried():
    tried = {*ANSWERS, *SETTINGS, "answers.json", "settings.json"}
    assert {path.name for path in SAMPLES.iterdir()} == tried
    assert {name.split("_")[1] for name in ANSWERS} == {str(version) for version in range(1, 10)}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_policy_file_is_read_and_answers_as_it_did(name):
    policy, known = hpsde.load_policy(SAMPLES / name), ANSWERS[name]
    contexts = policy.known_contexts[:3]
    np.testing.assert_allclose(policy.act(contexts), known["act"], rtol=1e-9)
    np.testing.assert_allclose(policy.expected_returns(contexts), known["returns"], rtol=1e-9)
    assert [option.number for option in policy.options] == known["options"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_configuration_with_flat_settings_is_read_and_means_the_same(name):
    config = read_config(SAMPLES / name)
    found = short_names(learner_of(config, make_task("toy-double")).settings)
    assert found.pop("options", "linear") == "linear"  # the kind of options, which those versions had no choice of
    # Settings of an update or a gate that is not taken are gone; HiREPS's features have no trend, as ever.
    assert {key: value for key, value in SETTINGS[name].items() if key in found} == {
        key: value for key, value in found.items() if (name, key) != ("config_1_hireps.json", "trend")
    }
    gone = SETTINGS[name].keys() - found.keys()
    assert gone <= {"match_squares", "kappa", "deviation", "greedy", "exploration_temperature"}
    assert found.get("trend") in (SETTINGS[name].get("trend", False), None)
