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

import numpy as np

from hpsde.base.arrays import map_arrays
from hpsde.base.groups import Strategy
from hpsde.base.shapes import Float, Int
from hpsde.gp.fit import spread_subset
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian

DECISIONS = 1024  # most of a gate's decisions that rho is smoothed from
PAIRS = 2**20  # of sample and decision that are looked at at once


class Behaviour(NamedTuple):
    """One past policy: its options, and the contexts where its gate chose which."""

    options: LinearGaussian
    contexts: Float[np.ndarray, "B S"]
    chosen: Int[np.ndarray, " B"]
    bandwidth: Float[np.ndarray, ""]


def make_behaviour(options: LinearGaussian, contexts: np.ndarray, chosen: np.ndarray) -> Behaviour:
    """A behaviour from its options and its gate's decisions at standardised contexts [B, S], at most DECISIONS of
    them, spread over all.
    """
    some = spread_subset(len(contexts), DECISIONS)
    contexts, chosen = contexts[some], chosen[some]
    count, size = contexts.shape
    return Behaviour(options, contexts, chosen.astype(np.int64), np.asarray(float(count) ** (-1.0 / (size + 4))))


def log_gate(behaviour: Behaviour, contexts: np.ndarray, options: np.ndarray) -> np.ndarray:
    """log rho_b(o | s) [K, N] of some of the options [K]: kernel-smoothed decisions of the behaviour's gate."""
    at, known = contexts / behaviour.bandwidth, behaviour.contexts / behaviour.bandwidth
    log_kernel = -0.5 * np.sum((at[:, None, :] - known[None, :, :]) ** 2, axis=-1)
    parts = np.stack([_log_sum(log_kernel[:, behaviour.chosen == o]) for o in options])
    return parts - np.logaddexp.reduce(parts, axis=0)


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log sum_j exp(values_ij) [N] of finite values [N, B]; -inf where there are none."""
    if not values.shape[1]:
        return np.full(len(values), -np.inf)
    most = values.max(axis=1)
    return most + np.log(np.sum(np.exp(values - most[:, None]), axis=1))


def log_density(
    behaviour: Behaviour, contexts: np.ndarray, features: np.ndarray, parameters: np.ndarray
) -> Float[np.ndarray, " N"]:
    """log pi_b(xi | s) of every sample: of standardised contexts [N, S], features [N, F] and parameters [N, D]."""
    options = np.unique(behaviour.chosen)  # the others have never been chosen
    chosen = map_arrays(lambda part: part[options], behaviour.options)
    rows, found = max(1, PAIRS // max(len(behaviour.chosen), 1)), np.empty(len(contexts))
    for start in range(0, len(contexts), rows):
        part = slice(start, start + rows)
        log_option = gaussian.log_density(chosen, features[part], parameters[part])
        found[part] = np.logaddexp.reduce(log_gate(behaviour, contexts[part], options) + log_option, axis=0)
    return found


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
            contexts = np.concatenate([known.contexts, contexts])
            chosen = np.concatenate([known.chosen, chosen])
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
    ) -> np.ndarray:
        """log pi_b(xi | s) [N] of one behaviour but the initial one, standard units."""
        return log_density(self.behaviours[number], contexts, features, parameters)

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
                rest = contexts[first:], features[first:], parameters[first:]
                table[row, first:] = log_density(self._seen(number, P), *rest)
        self.table, self.filled = table, [len(contexts)] * len(table)
        return table

    def _seen(self, number: int, P: np.ndarray | None) -> Behaviour:
        """The behaviour, as a density of the combinations xi P."""
        behaviour = self.behaviours[number]
        return behaviour if P is None else behaviour._replace(options=gaussian.project(behaviour.options, P))


def _same(P: np.ndarray | None, Q: np.ndarray | None) -> bool:
    return (P is None and Q is None) or (P is not None and Q is not None and np.array_equal(P, Q))
