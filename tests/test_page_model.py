"""A policy that a page evaluates itself: in a real browser, its numbers are those of Python."""

from importlib.resources import files

import numpy as np
import pytest

from browser import browser
from hpsde.runs.files import json_ready
from hpsde.serve.model_data import model_data
from test_acting import POLICIES, policy_of

CONTEXTS = 40


@pytest.fixture(scope="module")
def evaluated():
    """What the page says of every policy: its options in random contexts, and its choice along the first number."""
    scripts = [
        (files("hpsde.serve") / "page" / f"{name}.js").read_text(encoding="utf-8") for name in ("state", "model")
    ]
    with browser() as running:
        page = running.new_page()
        page.add_script_tag(content="\n".join(scripts))
        found = {}
        for name in POLICIES:
            policy = policy_of(name)
            data, contexts = model_data(policy), contexts_of(policy)
            if data is not None:
                words = {"data": json_ready(data), "contexts": contexts.tolist()}
                found[name] = policy, contexts, page.evaluate(EVALUATE, words)
        yield found


EVALUATE = """({data, contexts}) => { const model = makeModel(data); return {
  at: contexts.map((s) => { const found = model.at(s);
    return { chosen: found.option, options: found.options.map((o) => ({
    parameters: Array.from(o.parameters), expected: o.expected_return, deviation: o.expected_deviation })) }; }),
  chosen: contexts[0].length ? contexts.map((s) => model.line(s, 0, [s[0]]).chosen[0]) : null }; }"""


def contexts_of(policy):
    return np.random.default_rng(8).normal(20.0, 4.0, (CONTEXTS, policy.context_size))


@pytest.mark.parametrize("name", POLICIES)
def test_numbers_are_those_of_python(evaluated, name):
    if name == "gp custom":
        assert name not in evaluated  # features of the user's own are code
        return
    policy, contexts, found = evaluated[name]
    means = np.array([[option["parameters"] for option in each["options"]] for each in found["at"]])
    np.testing.assert_allclose(means, policy.option_means(contexts).transpose(1, 0, 2), rtol=1e-6, atol=1e-6)
    expected = np.array([[option["expected"] for option in each["options"]] for each in found["at"]])
    np.testing.assert_allclose(expected, policy.expected_returns(contexts).T, rtol=1e-6, atol=1e-6)
    deviations = np.array([[option["deviation"] for option in each["options"]] for each in found["at"]], dtype=float)
    np.testing.assert_allclose(deviations, policy.expected_deviations(contexts).T, rtol=1e-6, atol=1e-6)
    chosen = policy.choose(contexts).tolist()
    assert [each["chosen"] for each in found["at"]] == chosen
    assert found["chosen"] in (chosen, None)


def test_the_policies_choose_differently(evaluated):
    # Else the choice would be no test.
    various = [name for name, (_, _, found) in evaluated.items() if len({each["chosen"] for each in found["at"]}) > 1]
    assert len(various) > 8
