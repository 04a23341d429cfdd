"""The density pi_old of all behaviours that produced the rollouts.

The data come from the initial policy and from every policy since. Each sample is weighted by the mixture of
all of them, each with its share of the rollouts (the balance heuristic of multiple importance sampling),

    pi_old(xi | s) = sum_b n_b / N  pi_b(xi | s),    pi_b(xi | s) = sum_o rho_b(o | s) N(xi | mu_bo(s), Sigma_bo).

Rollouts whose behaviour nobody knows, data from elsewhere, count as those of one more, whose density the caller
estimates from them.

A learning gate is an argmax over a Gaussian process, too dear to ask again for every behaviour and every
sample: rho_b(o | s) is its decisions at its own contexts, smoothed by a Gaussian kernel over the context.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from hpsde.base.groups import Strategy
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.shapes import Array, Float, Int
from hpsde.gp.fit import spread_subset
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian

DECISIONS = 1024  # most of a gate's decisions that rho is smoothed from
LARGE = 2**22  # triples of option, sample and decision: from here on a matrix product sums
ROWS = 12_288  # samples that are looked at at once


class Behaviour(NamedTuple):
    """One past policy: its options, and the contexts where its gate chose which (option -1: padding)."""

    options: LinearGaussian
    contexts: Float[Array, "B S"]
    chosen: Int[Array, " B"]
    bandwidth: Float[Array, ""]


def make_behaviour(options: LinearGaussian, contexts: np.ndarray, chosen: np.ndarray) -> Behaviour:
    """A behaviour from its options and its gate's decisions at standardised contexts [B, S], at most DECISIONS of
    them, spread over all.
    """
    some = spread_subset(len(contexts), DECISIONS)
    contexts, chosen = contexts[some], chosen[some]
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
    count = behaviour.options.b.shape[0]
    decided = behaviour.chosen[None, :] == jnp.arange(count)[:, None]
    if count * log_kernel.size > LARGE:  # one exponential for each pair, and a matrix product
        kernel = jnp.exp(log_kernel - jnp.max(log_kernel, axis=1, keepdims=True))
        return jnp.log(kernel @ decided.T.astype(kernel.dtype)).T - jnp.log(jnp.sum(kernel, axis=1))[None]
    log_kernel = log_kernel - logsumexp(log_kernel, axis=1, keepdims=True)
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


class BehaviourDensity(Strategy, family="behaviour"):
    """The density pi_old of the rollouts, from the densities of the behaviours that made them."""

    def log_density(self, table: np.ndarray, made_by: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """log pi_old [N] from log pi_b(xi_i | s_i) [B, N], who made each rollout, as a row [N], and which count [N]."""
        raise NotImplementedError


class AllBehaviours(BehaviourDensity, name="mixture"):
    """The mixture of all policies that made rollouts."""

    def log_density(self, table: np.ndarray, made_by: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """A failed rollout is no rollout: it does not count in the share of the behaviour that made it."""
        return log_mixture(table, np.bincount(made_by[usable], minlength=len(table)).astype(float))


class OwnBehaviour(BehaviourDensity, name="own"):
    """The policy that made the rollout alone, as in the paper."""

    def log_density(self, table: np.ndarray, made_by: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """log pi_b(xi_i | s_i) by b = made_by[i]."""
        return table[made_by, np.arange(table.shape[1])]


@dataclass
class History:
    """All behaviours so far, and log pi_b(xi_i | s_i) of every rollout under each [B, N], never computed twice.

    A behaviour has the number of the learning step that made its policy; 0 is the initial policy, whose densities
    the caller gives.
    """

    expected_rollouts: int = 0
    behaviours: dict[int, Behaviour] = field(default_factory=dict)
    table: np.ndarray = field(default_factory=lambda: np.zeros((1, 0)))
    filled: list[int] = field(default_factory=lambda: [0])  # how many rollouts each row of the table has
    combinations: np.ndarray | None = None  # P of the parameters that the table is of; None: of the parameters

    def add(self, number: int, options: LinearGaussian, contexts: np.ndarray, chosen: np.ndarray) -> None:
        """Decisions of a policy's gate at standardised contexts [B, S]: a new behaviour, or more of the last one."""
        if number in self.behaviours:
            known = self.behaviours[number]
            rows = np.asarray(known.chosen) >= 0
            contexts = np.concatenate([np.asarray(known.contexts)[rows], contexts])
            chosen = np.concatenate([np.asarray(known.chosen)[rows], chosen])
            self.filled[1 + list(self.behaviours).index(number)] = 0
        else:
            self.filled.append(0)
        self.behaviours[number] = make_behaviour(options, contexts, chosen)

    def log_density(
        self,
        number: int,
        contexts: np.ndarray,
        features: np.ndarray,
        parameters: np.ndarray,
        expected: int = 0,
    ) -> np.ndarray:
        """log pi_b(xi | s) [N] of one behaviour but the initial one, standard units."""
        return _log_density(self.behaviours[number], contexts, features, parameters, expected)

    def log_densities(
        self,
        contexts: np.ndarray,
        features: np.ndarray,
        parameters: np.ndarray,
        log_initial: np.ndarray,
        P: np.ndarray | None = None,
        log_unknown: np.ndarray | None = None,
    ) -> np.ndarray:
        """log pi_b(xi_i | s_i) [B, N] of all rollouts, the first of them those of the last call, under every behaviour.

        With P [D, K] these are densities of the combinations xi P, and `log_initial` that of the initial policy there.
        `log_unknown` [N], the last row, is the density of rollouts that nobody known made.
        """
        table = self._fill(contexts, features, parameters, log_initial, P)
        return table if log_unknown is None else np.vstack([table, log_unknown])

    def rows_of(self, made_by: np.ndarray) -> np.ndarray:
        """The row of that table for who made each rollout [N]; the last row where that is unknown (below 0)."""
        known = np.searchsorted([0, *self.behaviours], made_by)
        return np.where(made_by < 0, len(self.behaviours) + 1, known)

    def _fill(
        self,
        contexts: np.ndarray,
        features: np.ndarray,
        parameters: np.ndarray,
        log_initial: np.ndarray,
        P: np.ndarray | None,
    ) -> np.ndarray:
        """The table of log densities, extended by new rollouts and behaviours; computed anew where P has changed."""
        if not _same(P, self.combinations):
            self.table, self.filled, self.combinations = np.zeros((1, 0)), [0] * len(self.filled), P
        parameters = parameters if P is None else parameters @ P
        table = np.empty((len(self.behaviours) + 1, len(contexts)))
        table[: len(self.table), : self.table.shape[1]] = self.table
        table[0] = log_initial
        for row, number in enumerate(self.behaviours, start=1):
            first = self.filled[row]
            if first < len(contexts):
                # A new behaviour is asked about all rollouts, an old one about the newest.
                expected = 0 if first else self.expected_rollouts
                table[row, first:] = _log_density(
                    self._seen(number, P), contexts[first:], features[first:], parameters[first:], expected
                )
        self.table, self.filled = table, [len(contexts)] * len(table)
        return table

    def _seen(self, number: int, P: np.ndarray | None) -> Behaviour:
        """The behaviour, as a density of the combinations xi P."""
        behaviour = self.behaviours[number]
        return behaviour if P is None else behaviour._replace(options=_project(behaviour.options, jnp.asarray(P)))


_project = jax.jit(gaussian.project)


def _same(P: np.ndarray | None, Q: np.ndarray | None) -> bool:
    return (P is None and Q is None) or (P is not None and Q is not None and np.array_equal(P, Q))


def _log_density(
    behaviour: Behaviour, contexts: np.ndarray, features: np.ndarray, parameters: np.ndarray, expected: int
) -> np.ndarray:
    given, rows = (contexts, features, parameters), min(padded_size(len(contexts), expected), ROWS)
    parts = []
    for start in range(0, len(contexts), rows):
        arrays = (jnp.asarray(pad_rows(each[start : start + rows], rows)) for each in given)
        parts.append(np.asarray(log_density(behaviour, *arrays)))
    return np.concatenate([np.zeros(0), *parts])[: len(contexts)]
