"""Regions: climbs in many dimensions that start far from one another, as functions of the rollouts.

A search for several solutions without a context, by itself: the learner does not use it (docs/findings.md says why).
"""
