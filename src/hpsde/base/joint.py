"""The joint point of a rollout in its two orders: [s, xi], as rollouts have it, and z = [xi, s], as processes do."""

from __future__ import annotations

import numpy as np


def parameters_first(joint: np.ndarray, context_size: int) -> np.ndarray:
    """z = [xi, s] [N, D + S] of [s, xi] [N, S + D]."""
    return np.roll(joint, -context_size, axis=1)


def contexts_first(z: np.ndarray, context_size: int) -> np.ndarray:
    """[s, xi] [N, S + D] of z = [xi, s] [N, D + S]."""
    return np.roll(z, context_size, axis=1)
