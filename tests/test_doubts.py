"""Doubts: each sign raises its own, with its number and what to do; good signs raise none."""

import re

import numpy as np
import pytest

import hpsde
import small
from hpsde.policy.doubts import Signs, find_doubts
from hpsde.steps import judging

GOOD = Signs(
    explained=0.9,
    unexplored=0.05,
    expected=1.0,
    best_first=0.7,
    width=0.3,
    options=3,
    maxima=3,
    settled=20,
    outside=0.0,
    directions=10,
    first=600,
    scatter=0.001,
)


def test_good_signs_raise_no_doubt():
    assert find_doubts(GOOD) == ()
    assert find_doubts(GOOD._replace(unexplored=0.3)) == ()


def test_what_noise_hides_from_the_model_raises_no_doubt():
    assert find_doubts(GOOD._replace(explained=0.5, scatter=0.4)) == ()
    assert find_doubts(GOOD._replace(explained=0.5, scatter=float("nan"))) == ()
    assert [each.kind for each in find_doubts(GOOD._replace(explained=0.5, scatter=0.05))] == ["coarse"]


def test_what_is_not_known_raises_no_doubt():
    nothing = float("nan")
    names = ("unexplored", "expected", "best_first", "width", "outside", "beaten", "scatter")
    unknown = GOOD._replace(**dict.fromkeys(names, nothing))
    assert find_doubts(unknown) == ()


@pytest.mark.parametrize(
    ("kind", "changes", "number"),
    [
        ("unexplained", {"explained": 0.04}, "4 %"),
        ("coarse", {"explained": 0.58}, "58 %"),
        ("few", {"unexplored": 0.62}, "62 %"),
        ("few", {"unexplored": 0.45}, "45 %"),
        ("many", {"directions": 20}, "1.75e+03 ways"),
        ("not-better", {"expected": 0.51}, "0.51"),
        ("wide", {"width": 3.3}, "3.3"),
        ("climbing", {"climbing": 4}, "4 regions"),
        ("unheld", {"maxima": 5}, "5"),
        ("unsettled", {"settled": 1}, "1"),
        ("bound", {"outside": 0.44}, "44 %"),
        ("beaten", {"beaten": 0.13}, "13 %"),
    ],
)
def test_each_sign_raises_its_own_doubt_with_its_number_and_what_to_do(kind, changes, number):
    (doubt,) = find_doubts(GOOD._replace(**changes))
    assert doubt.kind == kind
    assert number in doubt.text
    assert re.search(r"more|raise|widen|go on", doubt.text, re.IGNORECASE)
    assert str(doubt) == doubt.text


def test_where_no_solution_is_seen_nothing_is_explained():
    kinds = [doubt.kind for doubt in find_doubts(GOOD._replace(explained=-0.01, maxima=0, options=1, outside=1.0))]
    assert kinds == ["unexplained"]


def test_a_model_that_shows_no_solution_says_so_whatever_it_explains():
    doubt = find_doubts(GOOD._replace(maxima=0, options=1))[0]
    assert doubt.kind == "unexplained"
    assert "shows no solution" in doubt.text
    assert "hardly knows" not in doubt.text


def test_returns_that_are_noise_leave_one_wide_option_and_a_doubt():
    rng = np.random.default_rng(0)
    learner = small.run(small.make(), returns=lambda contexts, parameters: rng.normal(size=len(parameters)))
    assert len(learner.policy.options) == 1
    assert "unexplained" in [doubt.kind for doubt in learner.policy.doubts]
    (option,) = learner.policy.options
    initial = learner.rollouts.parameters[learner.rollouts.behaviour == 0]
    np.testing.assert_allclose(option.covariance, np.cov(initial.T), rtol=0.05)


@pytest.mark.parametrize("slope", [0.0, 10.0])
def test_a_level_that_depends_on_the_context_alone_is_no_reason_to_doubt(slope):
    """The best first rollouts are those in easy contexts."""

    def returns(contexts, parameters):
        return small.two_ridges(contexts, parameters) + slope * contexts[:, 0]

    learner = small.run(small.make(), returns=returns)
    assert "not-better" not in [doubt.kind for doubt in learner.policy.doubts]


def test_returns_that_depend_on_the_context_alone_leave_a_doubt():
    learner = small.run(small.make(), returns=lambda contexts, parameters: 5.0 * contexts[:, 0])
    assert "unexplained" in [doubt.kind for doubt in learner.policy.doubts]


@pytest.mark.parametrize(("features", "doubted"), [("linear", True), ("squared-exponential", False)])
def test_options_that_are_too_stiff_for_their_solution_are_doubted(features, doubted):
    def wave(context, parameters):
        return np.exp(-0.5 * ((parameters[:, 0] - np.sin(3.0 * context[:, 0])) / 0.15) ** 2)

    ranges = {"contexts": hpsde.Uniform(-2.0, 2.0), "initial": hpsde.Uniform(-1.5, 1.5)}
    policy = hpsde.learn(
        wave, **ranges, batched=True, rollouts=400, max_options=1, features=features, seed=1, progress=False
    )
    assert ("beaten" in [doubt.kind for doubt in policy.doubts]) == doubted


def test_what_the_model_explains_is_what_it_did_best(monkeypatch):
    """Rollouts that lie close together may spoil its prediction of first ones beside them; that is no new doubt."""
    values = iter([0.95, 0.2, 0.97])
    monkeypatch.setattr(judging, "explained", lambda *_: next(values))
    learner, seen = small.make(), []
    for number, count in enumerate(small.ROUNDS):
        s = small.draw_contexts(number, count, 1)
        xi = learner.ask(s).parameters
        learner.tell(s, xi, small.two_ridges(s, xi))
        assert "coarse" not in [doubt.kind for doubt in learner.policy.doubts]
        seen.append(learner.info.explained)
    assert seen == [0.95, 0.95, 0.97]
