"""HPSDE as ask / tell: the shell around Algorithm 1 that keeps the rollouts and who made them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, NamedTuple

import jax
import numpy as np

from hpsde._padding import pad_rows, padded_size
from hpsde._precision import double_precision
from hpsde._shapes import Array
from hpsde.algorithm import Data, Memory, reestimate
from hpsde.ask_tell import DENSITY, Info, Learner, Proposal
from hpsde.behaviours import History
from hpsde.features import FeatureMap, make_features
from hpsde.gating import draw_options
from hpsde.initial import EstimatedDensity
from hpsde.policy import HierarchicalPolicy
from hpsde.rollouts import Units, fit_units
from hpsde.settings import Settings

__all__ = ["HPSDE", "Frame", "Info", "Proposal"]

MOMENTS = 2  # the stream of the gate's draws, beside those of options and noise


class Frame(NamedTuple):
    """Units, features and initial density, from the initial rollouts; fixed once a policy has been asked."""

    units: Units
    features: FeatureMap
    estimated: EstimatedDensity | None


class HPSDE(Learner):
    """Hierarchical policy search via return-weighted density estimation, by ask and tell.

    `initial` is where the first parameters come from: a distribution (`hpsde.Uniform`, `hpsde.Gaussian`), an
    array of samples [n, D], or a task. `ask` draws from it until `initial_rollouts` have been told that did
    not fail; from then on it draws from the policy learned so far. `expected_rollouts` is a hint: with it,
    functions are compiled once, not anew as the data grow. Settings can be given by name, as in
    `HPSDE(1, 1, initial=..., update="rwr")`. docs/ask_tell.md shows it at work.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Learner.STATE, "_history", "_frame", "_memory")

    settings: Settings

    def _begin(self) -> None:
        self._history = History(self.expected_rollouts)
        self._frame: Frame | None = None
        self._memory = Memory()

    def _draw(self, key: Array, rows: np.ndarray, policy: HierarchicalPolicy) -> Proposal:
        key_option, key_noise = jax.random.split(key)
        key_moments = jax.random.fold_in(key, MOMENTS) if self.settings.gp_moments == "sampled" else None
        values = policy.gate_scores(rows, self.settings.kappa, key_moments)
        temperature, exploration = self.info.temperature, self.settings.exploration
        option = np.asarray(draw_options(key_option, policy.gate, values, temperature, exploration))
        parameters = policy.sample_options(key_noise, rows, option)
        standard, features = policy.units.contexts(rows), policy.features(rows)
        self._decided(rows, option, policy)
        log_density = self._history.log_density(
            self.info.updates, standard, features, policy.units.parameters(parameters)
        )
        return Proposal(parameters, option, log_density - policy.units.log_volume)

    @double_precision
    def recall(self, contexts: np.ndarray, option: np.ndarray) -> None:
        """The present policy chose these options [N] in contexts [N, S]; `propose` has said so already."""
        if self._policy is not None:
            self._decided(contexts, option, self._policy)

    def _decided(self, contexts: np.ndarray, option: np.ndarray, policy: HierarchicalPolicy) -> None:
        """The gate's decisions are what the policy's density is known by."""
        slots = np.flatnonzero(policy.kept)[option]
        self._history.add(self.info.updates, policy.standard_options, policy.units.contexts(contexts), slots)

    def _estimate(self, key: Array, usable: np.ndarray) -> HierarchicalPolicy:
        if self._frame is None or not self._history.behaviours:
            # Until a policy has been asked, only the memory is in the units of the old frame.
            self._frame, self._memory = self._make_frame(usable), Memory()
        data = self._data(self._frame, usable)
        estimate, self._memory, step = reestimate(key, data, self._memory, self.settings)
        self.info = replace(self.info, **step._asdict())
        return HierarchicalPolicy(
            standard_options=estimate.options,
            kept=estimate.kept,
            gate=estimate.gate,
            features=self._frame.features,
            units=self._frame.units,
            mean_returns=estimate.mean_returns,
            known_contexts=self.rollouts.contexts[usable],
        )

    def _make_frame(self, usable: np.ndarray) -> Frame:
        contexts, parameters = self.rollouts.contexts[usable], self.rollouts.parameters[usable]
        units = fit_units(contexts, parameters)
        features = make_features(self.settings.features, contexts, self.settings.feature_count)
        if self._initial.log_density(contexts[:1], parameters[:1]) is not None:
            return Frame(units, features, None)
        standard = units.contexts(contexts), units.parameters(parameters)
        return Frame(units, features, EstimatedDensity.fit(self._key(DENSITY, 0), *standard))

    def _data(self, frame: Frame, usable: np.ndarray) -> Data:
        """The usable rollouts in standard units with log pi_old, padded."""
        rollouts, units = self.rollouts, frame.units
        contexts, parameters = units.contexts(rollouts.contexts), units.parameters(rollouts.parameters)
        features = frame.features(rollouts.contexts)
        if frame.estimated is not None:
            log_initial = frame.estimated.log_density(contexts, parameters)
        else:
            known = self._initial.log_density(rollouts.contexts, rollouts.parameters)
            log_initial = np.asarray(known) + units.log_volume
        # A failed rollout is no rollout: it does not count in the share of the behaviour that made it.
        made_by = rollouts.behaviour[usable]
        every = (contexts, features, parameters, log_initial)
        if self.settings.behaviour == "own":
            log_behaviour = self._history.log_own(*every, rollouts.behaviour)
        else:
            log_behaviour = self._history.log_mixture(*every, made_by)
        rows = padded_size(len(made_by), expected=self.expected_rollouts)
        return Data(
            contexts=pad_rows(contexts[usable], rows),
            parameters=pad_rows(parameters[usable], rows),
            returns=pad_rows(rollouts.returns[usable], rows),
            features=pad_rows(features[usable], rows),
            log_behaviour=pad_rows(log_behaviour[usable], rows),
            mask=np.arange(rows) < len(made_by),
        )
