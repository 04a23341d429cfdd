"""What options have earned: the newest returns of the rollouts that each has made."""

import numpy as np

import small
from hpsde.policy.measured import NEWEST, measured_returns


def test_the_newest_rollouts_of_an_option_count_and_failed_ones_do_not():
    drew = np.array([0, 4, 2] * 40)
    returns = np.arange(120.0)
    failed = np.isin(np.arange(120), [118, 115])
    means, counts = measured_returns(np.array([2, 0, 4, 9]), drew, returns, failed)
    of_2 = returns[drew == 2][-NEWEST:]
    of_4 = returns[(drew == 4) & ~failed][-NEWEST:]
    np.testing.assert_array_equal(means, [of_2.mean(), 0.0, of_4.mean(), 0.0])
    np.testing.assert_array_equal(counts, [20, 0, 20, 0])


def test_a_learners_policy_knows_what_its_options_have_earned():
    learner = small.run(small.make())
    told, policy = learner.rollouts, learner.policy
    assert sum(option.measured_rollouts for option in policy.options) > 20
    for option in policy.options:
        own = told.returns[told.number == option.number][-NEWEST:]
        assert option.measured_rollouts == len(own)
        assert option.measured_return == (own.mean() if len(own) else None)
        assert len(own) < 2 or f"measured {own.mean():.4g} (mean of its newest {len(own)} rollouts)" in policy.summary()
