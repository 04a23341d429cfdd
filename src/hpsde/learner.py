"""HPSDE as ask / tell: the shell around Algorithm 1 that keeps the rollouts and who made them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from hpsde._checks import check_count, check_returns, check_rows
from hpsde._padding import pad_rows, padded_size
from hpsde._precision import double_precision
from hpsde._shapes import Array
from hpsde.algorithm import Data, Memory, reestimate
from hpsde.behaviours import History, make_behaviour
from hpsde.errors import AskTellError, InputError, UnknownNameError
from hpsde.features import FeatureMap, make_features
from hpsde.gating import draw_options
from hpsde.initial import EstimatedDensity, make_initial
from hpsde.policy import HierarchicalPolicy
from hpsde.rollouts import INITIAL, Rollouts, Units, fit_units
from hpsde.settings import Settings

# What the seed is split for: every use of randomness has its own stream.
ASK, UPDATE, DENSITY = range(3)


class Proposal(NamedTuple):
    """What `ask` proposes: parameters [N, D], the option of each (-1: initial policy), and log pi(xi | s)."""

    parameters: np.ndarray
    option: np.ndarray
    log_density: np.ndarray


@dataclass(frozen=True)
class Info:
    """Where a learner stands: rollouts told so far, and what the last re-estimation of the policy went through."""

    rollouts: int = 0
    failed: int = 0
    updates: int = 0
    options_kept: int = 0
    ess: float = float("nan")
    temperature: float = float("nan")
    flattening: float = float("nan")
    lower_bound: float = float("nan")
    warm: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return asdict(self)


class _Asked(NamedTuple):
    """Rollouts that were proposed and not told yet."""

    contexts: np.ndarray
    option: np.ndarray
    behaviour: int


class _Frame(NamedTuple):
    """Units, features and initial density, from the initial rollouts; fixed once a policy has been asked."""

    units: Units
    features: FeatureMap
    estimated: EstimatedDensity | None


class HPSDE:
    """Hierarchical policy search via return-weighted density estimation, by ask and tell.

    `initial` is where the first parameters come from: a distribution (`hpsde.Uniform`, `hpsde.Gaussian`), an
    array of samples [n, D], or a task. `ask` draws from it until `initial_rollouts` have been told that did
    not fail; from then on it draws from the policy learned so far. `expected_rollouts` is a hint: with it,
    functions are compiled once, not anew as the data grow. Settings can be given by name, as in
    `HPSDE(1, 1, initial=..., update="rwr")`. docs/ask_tell.md shows it at work.
    """

    def __init__(
        self,
        context_size: int,
        parameter_size: int,
        *,
        initial: Any,
        initial_rollouts: int = 200,
        expected_rollouts: int = 0,
        seed: int = 0,
        settings: Settings | None = None,
        **changes: Any,
    ):
        self.settings = _settings(settings, changes)
        self.context_size = check_count("context_size", context_size, 0)
        self.parameter_size = check_count("parameter_size", parameter_size, 1)
        self.initial_rollouts = check_count("initial_rollouts", initial_rollouts, 2)
        self.expected_rollouts = check_count("expected_rollouts", expected_rollouts, 0)
        self.seed = check_count("seed", seed, 0)
        self.rollouts = Rollouts(self.context_size, self.parameter_size)
        self.info = Info()
        self._initial = make_initial(initial, self.parameter_size)
        self._history = History(self.expected_rollouts)
        self._asked: _Asked | None = None
        self._ask_count = 0
        self._frame: _Frame | None = None
        self._memory = Memory()
        self._policy: HierarchicalPolicy | None = None
        self._policy_rollouts = 0  # how many rollouts the policy was learned from

    @double_precision
    def ask(self, contexts: Any = None, *, count: int | None = None) -> Proposal:
        """Parameters to try in these contexts [N, S]; without contexts (S = 0), `count` of them."""
        if self._asked is not None:
            raise AskTellError(
                f"ask was called again before the {len(self._asked.contexts)} rollouts of the last ask were "
                "told; call tell with their returns (mark those that did not run as failed), or forget_asked"
            )
        rows = self._contexts(contexts, count)
        key = self._key(ASK, self._ask_count)
        proposal, behaviour = (
            self._ask_initial(key, rows)
            if self.rollouts.usable < self.initial_rollouts
            else self._ask_policy(key, rows)
        )
        self._ask_count += 1
        self._asked = _Asked(rows, proposal.option, behaviour)
        return proposal

    def _ask_initial(self, key: Array, rows: np.ndarray) -> tuple[Proposal, int]:
        parameters = self._initial.sample(key, rows)
        log_density = self._initial.log_density(rows, parameters)
        unknown = np.full(len(rows), np.nan)
        log_density = unknown if log_density is None else log_density
        return Proposal(parameters, np.full(len(rows), INITIAL), log_density), 0

    def _ask_policy(self, key: Array, rows: np.ndarray) -> tuple[Proposal, int]:
        policy = self.policy
        key_option, key_noise = jax.random.split(key)
        values = policy.gate_scores(rows, self.settings.kappa)
        temperature, exploration = self.info.temperature, self.settings.exploration
        option = np.asarray(draw_options(key_option, policy.gate, values, temperature, exploration))
        parameters = policy.sample_options(key_noise, rows, option)
        standard = policy.units.contexts(rows)
        slots = np.flatnonzero(policy.kept)[option]
        index = self._history.add(make_behaviour(policy.standard_options, standard, slots))
        log_density = self._history.log_density(
            index, standard, policy.features(rows), policy.units.parameters(parameters)
        )
        return Proposal(parameters, option, log_density - policy.units.log_volume), index

    @double_precision
    def tell(self, contexts: Any, parameters: Any, returns: Any, *, failed: Any = None) -> None:
        """The returns of the asked rollouts or, when none were asked, rollouts of the initial policy.

        `failed` marks rollouts that gave no return: they are recorded and left out of learning. Nothing is
        taken in unless all of it is in order.
        """
        asked = self._asked
        count = None if asked is None else len(asked.contexts)
        xi = check_rows("parameters", parameters, self.parameter_size, count)
        if len(xi) == 0:
            raise InputError("tell needs at least one rollout; got 0 rows")
        rows = self._contexts(contexts, len(xi), "tell")
        values, lost = check_returns(returns, len(xi), failed)
        if asked is not None:
            _check_same_contexts(rows, asked.contexts)
        if asked is None or asked.behaviour == 0:
            self._check_possible(rows, xi, lost)
        self.rollouts.append(
            contexts=rows,
            parameters=xi,
            returns=values,
            failed=lost,
            option=np.full(len(xi), INITIAL) if asked is None else asked.option,
            behaviour=np.full(len(xi), 0 if asked is None else asked.behaviour),
            iteration=np.full(len(xi), self.rollouts.next_iteration),
        )
        self._asked = None
        self.info = replace(self.info, rollouts=len(self.rollouts), failed=int(self.rollouts.failed.sum()))

    def _check_possible(self, contexts: np.ndarray, parameters: np.ndarray, failed: np.ndarray) -> None:
        """An importance weight divides by the density: what the policy cannot do must not come from it."""
        log_density = self._initial.log_density(contexts, parameters)
        bad = np.flatnonzero([] if log_density is None else np.isneginf(log_density) & ~failed)
        if len(bad):
            raise InputError(
                "parameters must be possible under the initial policy, whose rollouts these are; row "
                f"{bad[0]}, {parameters[bad[0]].tolist()}, has density 0 ({len(bad)} such). Give an "
                "`initial` that covers them, or samples, whose density is estimated"
            )

    def forget_asked(self) -> None:
        """Give up the rollouts of the last ask, so that ask can be called again."""
        self._asked = None

    @property
    def policy(self) -> HierarchicalPolicy:
        """The policy learned from all rollouts told so far, re-estimated when there are new ones."""
        if self._policy is None or self._policy_rollouts != self.rollouts.usable:
            self._policy = self._update()
            self._policy_rollouts = self.rollouts.usable
        return self._policy

    @double_precision
    def _update(self) -> HierarchicalPolicy:
        usable = ~self.rollouts.failed
        if self.rollouts.usable < 2:
            raise AskTellError(
                f"a policy needs at least 2 rollouts that did not fail; {len(self.rollouts)} were told, "
                f"{int(self.rollouts.failed.sum())} of them failed"
            )
        if self._frame is None or not self._history.behaviours:
            # Until a policy has been asked, only the memory is in the units of the old frame.
            self._frame, self._memory = self._make_frame(usable), Memory()
        data = self._data(self._frame, usable)
        key = self._key(UPDATE, self.info.updates)
        estimate, self._memory, step = reestimate(key, data, self._memory, self.settings)
        self.info = replace(self.info, updates=self.info.updates + 1, **step._asdict())
        return HierarchicalPolicy(
            standard_options=estimate.options,
            kept=estimate.kept,
            gate=estimate.gate,
            features=self._frame.features,
            units=self._frame.units,
            mean_returns=estimate.mean_returns,
            known_contexts=self.rollouts.contexts[usable],
        )

    def _make_frame(self, usable: np.ndarray) -> _Frame:
        contexts, parameters = self.rollouts.contexts[usable], self.rollouts.parameters[usable]
        units = fit_units(contexts, parameters)
        features = make_features(self.settings.features, contexts, self.settings.feature_count)
        if self._initial.log_density(contexts[:1], parameters[:1]) is not None:
            return _Frame(units, features, None)
        standard = units.contexts(contexts), units.parameters(parameters)
        return _Frame(units, features, EstimatedDensity(self._key(DENSITY, 0), *standard))

    def _data(self, frame: _Frame, usable: np.ndarray) -> Data:
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
        log_behaviour = self._history.log_mixture(contexts, features, parameters, log_initial, made_by)
        rows = padded_size(len(made_by), expected=self.expected_rollouts)
        return Data(
            contexts=pad_rows(contexts[usable], rows),
            parameters=pad_rows(parameters[usable], rows),
            returns=pad_rows(rollouts.returns[usable], rows),
            features=pad_rows(features[usable], rows),
            log_behaviour=pad_rows(log_behaviour[usable], rows),
            mask=np.arange(rows) < len(made_by),
        )

    def _contexts(self, contexts: Any, count: int | None, caller: str = "ask") -> np.ndarray:
        """Contexts [N, S] as rows; where there are none, `count` empty ones."""
        if contexts is None:
            if self.context_size:
                raise InputError(f"{caller} needs contexts [N, {self.context_size}]; got none")
            if count is None:
                raise InputError("ask needs to know how many parameters: ask(count=N)")
            return np.zeros((check_count("count", count, 1), 0))
        rows = check_rows("contexts", contexts, self.context_size, count)
        if len(rows) == 0:
            raise InputError(f"{caller} needs at least one context; got 0 rows")
        return rows

    def _key(self, stream: int, index: int) -> Array:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), stream), index)


def _check_same_contexts(told: np.ndarray, asked: np.ndarray) -> None:
    if not np.array_equal(told, asked):
        row = int(np.flatnonzero((told != asked).any(axis=1))[0])
        raise AskTellError(
            f"tell got other contexts than the last ask was given: row {row} is {told[row].tolist()}, asked "
            f"was {asked[row].tolist()}; tell all rollouts of an ask at once, in its order"
        )


def _settings(settings: Settings | None, changes: dict[str, Any]) -> Settings:
    """The settings with changes by name."""
    if settings is not None and not isinstance(settings, Settings):
        raise InputError(f"settings must be hpsde.Settings, or given by name; got {type(settings).__name__}")
    known = [each.name for each in fields(Settings)]
    for name in changes:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    return replace(settings or Settings(), **changes)
