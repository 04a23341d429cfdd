"""Policies for the reach task made by hand of its known postures; nothing is learned."""

from functools import cache

import jax.numpy as jnp
import numpy as np

from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.steps.features import Linear
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Units
from hpsde.steps.softmax import SoftmaxGate
from hpsde.tasks import make_task
from hpsde.tasks.kinematics import KUKA_LWR
from hpsde.tasks.reach import KUKA_POSTURES, nearest_angles

CENTRE, HALF = np.array([0.6, 0.0, 0.5]), np.array([0.05, 0.05, 0.1])


@cache
def four_postures():
    """One option for each posture family, linear in the goal; the gate takes option 0 for y < 0, option 3 beyond."""
    goals = make_task("reach").evaluation_contexts()
    inputs = np.insert((goals - CENTRE) / HALF, 0, 1.0, axis=1)
    angles = [nearest_angles(KUKA_LWR, start, goals) for start in KUKA_POSTURES.values()]
    fitted = np.array([np.linalg.lstsq(inputs, q, rcond=None)[0] for q in angles])
    gate = np.zeros((4, 4))
    gate[0, 1], gate[3, 1], gate[1:3, 3] = -5.0, 5.0, -99.0
    return HierarchicalPolicy(
        standard_options=LinearGaussian(
            b=jnp.asarray(fitted[:, 0]),
            w=jnp.asarray(fitted[:, 1:]),
            Sigma=jnp.asarray(np.stack([np.eye(7)] * 4) / 1e4),
        ),
        kept=np.ones(4, dtype=bool),
        gate=SoftmaxGate(jnp.asarray(gate)),
        features=Linear(CENTRE, HALF),
        units=Units(
            CENTRE, HALF, np.zeros(7), np.ones(7), np.eye(7), np.zeros(7), np.full(7, -np.inf), np.full(7, np.inf)
        ),
        mean_returns=np.full(4, -0.01),
        known_contexts=goals,
    )
