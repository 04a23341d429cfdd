"""The density pi_old of all behaviours that produced the rollouts.

The data come from the initial policy and from every policy since. Each sample is weighted by the mixture of
all of them, each with its share of the rollouts (the balance heuristic of multiple importance sampling),

    pi_old(xi | s) = sum_b n_b / N  pi_b(xi | s),    pi_b(xi | s) = sum_o rho_b(o | s) N(xi | mu_bo(s), Sigma_bo).

A learning gate is an argmax over a Gaussian process, too dear to ask again for every behaviour and every
sample: rho_b(o | s) is its decisions at its own contexts, smoothed by a Gaussian kernel over the context.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from hpsde import gaussian
from hpsde._padding import pad_rows, padded_size
from hpsde._shapes import Array, Float, Int
from hpsde.gaussian import LinearGaussian


class Behaviour(NamedTuple):
    """One past policy: its options, and the contexts where its gate chose which (option -1: padding)."""

    options: LinearGaussian
    contexts: Float[Array, "B S"]
    chosen: Int[Array, " B"]
    bandwidth: Float[Array, ""]


def make_behaviour(options: LinearGaussian, contexts: np.ndarray, chosen: np.ndarray) -> Behaviour:
    """A behaviour from its options and its gate's decisions at standardised contexts [B, S]."""
    count, size = contexts.shape
    rows = padded_size(count)
    bandwidth = np.asarray(float(count) ** (-1.0 / (size + 4)))
    return Behaviour(
        options,
        jnp.asarray(pad_rows(contexts, rows)),
        jnp.asarray(pad_rows(chosen.astype(np.int64), rows, fill=-1)),
        jnp.asarray(bandwidth),
    )


def log_gate(behaviour: Behaviour, contexts: Float[Array, "N S"]) -> Float[Array, "O N"]:
    """log rho_b(o | s): kernel-smoothed decisions of the behaviour's gate."""
    difference = contexts[:, None, :] - behaviour.contexts[None, :, :]
    log_kernel = -0.5 * jnp.sum(difference**2, axis=-1) / behaviour.bandwidth**2
    log_kernel = jnp.where(behaviour.chosen >= 0, log_kernel, -jnp.inf)
    log_kernel = log_kernel - logsumexp(log_kernel, axis=1, keepdims=True)
    count = behaviour.options.b.shape[0]
    decided = behaviour.chosen[None, :] == jnp.arange(count)[:, None]
    return logsumexp(jnp.where(decided[:, None, :], log_kernel[None], -jnp.inf), axis=-1)


@jax.jit
def log_density(
    behaviour: Behaviour,
    contexts: Float[Array, "N S"],
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
) -> Float[Array, " N"]:
    """log pi_b(xi | s) of every sample."""
    log_option = gaussian.log_density(behaviour.options, features, parameters)
    return logsumexp(log_gate(behaviour, contexts) + log_option, axis=0)


def log_mixture(log_densities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """log pi_old [N] from log pi_b(xi_i | s_i) [B, N] and the numbers of rollouts n_b [B]."""
    with np.errstate(divide="ignore"):
        log_share = np.log(counts / counts.sum())
    return np.logaddexp.reduce(log_densities + log_share[:, None], axis=0)


class History:
    """All behaviours so far, and log pi_b(xi_i | s_i) of every rollout under each [B, N], never computed twice.

    Behaviour 0 is the initial policy, whose densities the caller gives.
    """

    def __init__(self, expected_rollouts: int = 0) -> None:
        self.expected_rollouts = expected_rollouts
        self.behaviours: list[Behaviour] = []
        self.table = np.zeros((1, 0))

    def add(self, behaviour: Behaviour) -> int:
        """Take in a behaviour; its index."""
        self.behaviours.append(behaviour)
        return len(self.behaviours)

    def log_density(
        self,
        index: int,
        contexts: np.ndarray,
        features: np.ndarray,
        parameters: np.ndarray,
        expected: int = 0,
    ) -> np.ndarray:
        """log pi_b(xi | s) [N] of one behaviour but the initial one, standard units."""
        rows = padded_size(len(contexts), expected)
        arrays = (jnp.asarray(pad_rows(part, rows)) for part in (contexts, features, parameters))
        return np.asarray(log_density(self.behaviours[index - 1], *arrays))[: len(contexts)]

    def log_mixture(
        self,
        contexts: np.ndarray,
        features: np.ndarray,
        parameters: np.ndarray,
        log_initial: np.ndarray,
        made_by: np.ndarray,
    ) -> np.ndarray:
        """log pi_old [N] of all rollouts, the first of them those of the last call; `made_by` [N] is who made them."""
        old_behaviours, old_rollouts = self.table.shape
        table = np.empty((len(self.behaviours) + 1, len(contexts)))
        table[:old_behaviours, :old_rollouts] = self.table
        table[0] = log_initial
        for index in range(1, len(table)):
            first = old_rollouts if index < old_behaviours else 0
            if first < len(contexts):
                # A new behaviour is asked about all rollouts, an old one about the newest.
                expected = 0 if first else self.expected_rollouts
                table[index, first:] = self.log_density(
                    index, contexts[first:], features[first:], parameters[first:], expected
                )
        self.table = table
        return log_mixture(table, np.bincount(made_by, minlength=len(table)).astype(float))
