"""Policies made by hand, with numbers that a test can look at; nothing is learned."""

import io

import numpy as np

from hpsde import gp
from hpsde.gp import binary as gp_binary
from hpsde.gp.warp import Warp
from hpsde.policy.doubts import Doubt
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.steps.features import Linear
from hpsde.steps.gating import GPGate
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.marginal import MarginalGate
from hpsde.steps.rollouts import Units
from hpsde.steps.softmax import SoftmaxGate

KEPT = np.array([True, False, True, False])
DOUBTS = (
    Doubt("unexplained", 0.1, "The model explains 10 % of the returns' variance: run more rollouts. Ω"),
    Doubt("wide", 3.25, "Option 5 is wide."),
)


def make_gate(kind, S, D, generator):
    if kind == "softmax":
        return SoftmaxGate(np.asarray(generator.normal(size=(4, S + 1))))
    if kind == "marginal":
        spread = generator.normal(size=(4, S, S))
        return MarginalGate(
            log_share=np.log(np.array([0.4, 1e-300, 0.6, 1e-300])),
            mean=np.asarray(generator.normal(size=(4, S))),
            covariance=np.asarray(spread @ spread.transpose(0, 2, 1) + np.eye(S)),
        )
    z, scores = generator.normal(0.7, 1.3, size=(16, D + S)), np.sort(generator.normal(size=16))
    mask = np.arange(16) < 12
    hyperparameters = gp.Hyperparameters(np.zeros(D + S) + 0.3, np.array(0.1), np.array(-1.0))
    process = gp.condition_by_lapack(hyperparameters, z, scores, mask)
    # As if conditioned on a machine that rounds otherwise: what is computed again is not the same to the bit.
    process = process._replace(beta=process.beta * (1.0 + 1e-12))
    warp, axes = Warp(100.0 + 7.0 * scores, scores), np.asarray(slanted(D + S, seed=1))
    return GPGate(process, np.asarray(np.where(mask, scores, 0.0)), warp, axes)


def binary_gate(S, D, directions=None):
    """A gate of success or failure, where some rollouts surprise and others are all but certain."""
    generator = np.random.default_rng(4)
    axes = None if directions is None else generator.normal(size=(directions, D + S))
    E = D + S if directions is None else directions
    z = generator.normal(0.7, 1.3, size=(40, E))
    success, mask = (z[:, 0] > 0.5) ^ (np.arange(40) % 9 == 0), np.arange(40) % 13 != 5
    hyperparameters = gp.Hyperparameters(np.zeros(E) + 0.3, np.array(2.0), np.array(-1.0))
    process = gp_binary.condition_binary(hyperparameters, z, success & mask, mask, -0.4)
    warp = gp_binary.odds_warp(np.array([10.0, 30.0]))
    return GPGate(process, np.asarray((success & mask).astype(float)), warp, axes, binary=True)


def slanted(size, seed):
    """Axes that are not the coordinates' own."""
    return np.eye(size) + 0.3 * np.random.default_rng(seed).normal(size=(size, size))


def by_hand(gate="softmax", context_size=1, parameter_size=2, features=None, feature_size=None, seed=0):
    """A policy with known numbers in units far from 0 and 1: four slots, of which 0 and 2 hold options."""
    S, D = context_size, parameter_size
    F = S if feature_size is None else feature_size
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(4, D, D))
    units = Units(
        generator.normal(20.0, 1.0, S),
        generator.uniform(2.0, 3.0, S),
        generator.normal(-300.0, 1.0, D),
        generator.uniform(5.0, 9.0, D),
        slanted(D, seed=2),
        np.zeros(1 + 2 * S),
        np.full(D, -np.inf),
        np.full(D, np.inf),
    )
    return HierarchicalPolicy(
        standard_options=LinearGaussian(
            b=np.asarray(generator.normal(size=(4, D))),
            w=np.asarray(generator.normal(size=(4, F, D))),
            Sigma=np.asarray(root @ root.transpose(0, 2, 1) + 0.3 * np.eye(D)),
        ),
        kept=KEPT,
        gate=make_gate(gate, F if gate == "softmax" else S, D, generator),
        features=Linear(units.context_centre, units.context_scale) if features is None else features,
        units=units,
        mean_returns=generator.normal(size=4),
        known_contexts=units.context_centre + units.context_scale * generator.normal(size=(30, S)),
    )


def fields(content):
    """The arrays of a policy file, by numpy's own reader."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


def rewrite(path, arrays):
    """A file with these arrays, by numpy's own writer."""
    with open(path, "wb") as file:
        np.savez(file, **arrays)
