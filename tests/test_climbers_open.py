"""Climbs of rollouts that fail, and beyond what the initial policy can do."""

import numpy as np

from test_climbers import HIGHEST, LOWEST, TOPS, make, returns


def test_without_bounds_a_climb_out_of_the_initial_policy_can_be_told():
    """The return rises beyond the edges of the initial policy; nobody owns most of its hills."""

    def saddle(xi):
        x = 2.0 * (xi - LOWEST) / (HIGHEST - LOWEST) - 1.0
        return x[:, 0] * x[:, 1] + 0.2 * x[:, 0]

    learner = make(bounds=None)
    outside = False
    for count in (128, 8, 8, 8, 8):
        proposal = learner.ask(count=count)
        outside |= bool(np.any((proposal.parameters < LOWEST) | (proposal.parameters > HIGHEST)))
        learner.tell(None, proposal.parameters, saddle(proposal.parameters))
    assert outside


def test_a_climb_that_fails_is_not_asked_for_again():
    """The best place of all is one where every rollout fails."""
    learner = make()
    for count in (130, *(4,) * 12):
        proposal = learner.ask(count=count)
        away = np.linalg.norm((proposal.parameters - TOPS[0]) / (HIGHEST - LOWEST), axis=1)
        told = np.where(away < 0.04, np.nan, returns(proposal.parameters))
        learner.tell(None, proposal.parameters, told, failed=np.isnan(told))
    assert learner.rollouts.failed[130:].sum() > 0
    lost = learner.rollouts.parameters[learner.rollouts.failed]
    assert len(np.unique(lost, axis=0)) == len(lost)
