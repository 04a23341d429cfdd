"""HPSDE as ask / tell: the shell around Algorithm 1 that keeps the rollouts and who made them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde._checks import check_returns, check_rows
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
    """Where a learner stands, in plain numbers."""

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
    """Units, features and initial density: fixed once the first rollouts are in."""

    units: Units
    features: FeatureMap
    estimated: EstimatedDensity | None


class HPSDE:
    """Hierarchical policy search via return-weighted density estimation, by ask and tell.

    `initial` is where the first parameters come from: a distribution (`hpsde.Uniform`, `hpsde.Gaussian`), an array
    of samples [n, D], or a task. The first `initial_rollouts` that `ask` proposes come from it; from then on they
    come from the policy learned so far. `expected_rollouts` is a hint: with it, compiled functions are compiled once,
    not anew as the data grow. Settings can be given by name: `HPSDE(1, 1, initial=..., update="rwr")`.
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
        if context_size < 0 or parameter_size < 1:
            raise InputError(
                f"need context_size >= 0 and parameter_size >= 1; got {context_size} and {parameter_size}"
            )
        if initial_rollouts < 2:
            raise InputError(f"initial_rollouts must be at least 2; got {initial_rollouts}")
        known = [each.name for each in fields(Settings)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting", name, known)
        self.settings = replace(settings or Settings(), **changes)
        self.context_size, self.parameter_size = context_size, parameter_size
        self.initial_rollouts = initial_rollouts
        self.expected_rollouts = expected_rollouts
        self.seed = seed
        self.rollouts = Rollouts(context_size, parameter_size)
        self.info = Info()
        self._initial = make_initial(initial, parameter_size)
        self._history = History()
        self._asked: _Asked | None = None
        self._ask_count = 0
        self._frame: _Frame | None = None
        self._memory = Memory()
        self._policy: HierarchicalPolicy | None = None
        self._policy_rollouts = 0  # how many rollouts the policy has seen

    @double_precision
    def ask(self, contexts: Any = None, *, count: int | None = None) -> Proposal:
        """Parameters to try in these contexts [N, S]; without contexts (S = 0), `count` of them."""
        if self._asked is not None:
            raise AskTellError(
                f"ask was called again before the {len(self._asked.contexts)} rollouts of the last ask were told; "
                "call tell with their returns (mark those that did not run as failed), or forget_asked"
            )
        rows = self._contexts(contexts, count)
        usable = int((~self.rollouts.failed).sum())
        key = self._key(ASK, self._ask_count)
        proposal, behaviour = (
            self._ask_initial(key, rows) if usable < self.initial_rollouts else self._ask_policy(key, rows)
        )
        self._ask_count += 1
        self._asked = _Asked(rows, proposal.option, behaviour)
        return proposal

    def _ask_initial(self, key: Array, rows: np.ndarray) -> tuple[Proposal, int]:
        parameters = self._initial.sample(key, rows)
        log_density = self._initial.log_density(rows, parameters)
        unknown = np.full(len(rows), np.nan)
        return Proposal(
            parameters, np.full(len(rows), INITIAL), unknown if log_density is None else log_density
        ), 0

    def _ask_policy(self, key: Array, rows: np.ndarray) -> tuple[Proposal, int]:
        policy = self.policy
        key_option, key_noise = jax.random.split(key)
        values = policy.gate_scores(rows, self.settings.kappa)
        temperature, exploration = self.info.temperature, self.settings.exploration
        option = np.asarray(draw_options(key_option, policy.gate, jnp.asarray(values), temperature, exploration))
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

        `failed` marks rollouts that gave no return: they are recorded and left out of learning. Nothing is taken in
        unless all of it is in order.
        """
        asked = self._asked
        xi = check_rows("parameters", parameters, self.parameter_size, None if asked is None else len(asked.contexts))
        rows = check_rows(
            "contexts", np.zeros((len(xi), 0)) if contexts is None else contexts, self.context_size, len(xi)
        )
        values, lost = check_returns(returns, len(xi), failed)
        if asked is not None and not np.array_equal(rows, asked.contexts):
            raise AskTellError("tell got other contexts than the last ask was given; tell them in the same order")
        self.rollouts.append(
            contexts=rows,
            parameters=xi,
            returns=values,
            failed=lost,
            option=np.full(len(xi), INITIAL) if asked is None else asked.option,
            behaviour=np.full(len(xi), 0 if asked is None else asked.behaviour),
            iteration=np.full(len(xi), self.rollouts.iteration.max(initial=-1) + 1),
        )
        self._asked = None
        self.info = replace(self.info, rollouts=len(self.rollouts), failed=int(self.rollouts.failed.sum()))

    def forget_asked(self) -> None:
        """Give up the rollouts of the last ask, so that ask can be called again."""
        self._asked = None

    @property
    def policy(self) -> HierarchicalPolicy:
        """The policy learned from all rollouts told so far; re-estimated when there are new ones."""
        if self._policy is None or self._policy_rollouts != len(self.rollouts):
            self._policy = self._update()
            self._policy_rollouts = len(self.rollouts)
        return self._policy

    @double_precision
    def _update(self) -> HierarchicalPolicy:
        usable = ~self.rollouts.failed
        if usable.sum() < 2:
            raise AskTellError(
                f"a policy needs at least 2 rollouts that did not fail; {len(self.rollouts)} were told, "
                f"{int(self.rollouts.failed.sum())} of them failed"
            )
        self._frame = self._frame or self._make_frame(usable)
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
        estimated = None
        if self._initial.log_density(contexts[:1], parameters[:1]) is None:
            key = self._key(DENSITY, 0)
            estimated = EstimatedDensity(key, units.contexts(contexts), units.parameters(parameters))
        return _Frame(units, features, estimated)

    def _data(self, frame: _Frame, usable: np.ndarray) -> Data:
        """The usable rollouts in standard units with log pi_old, padded."""
        rollouts, units = self.rollouts, frame.units
        contexts, parameters = units.contexts(rollouts.contexts), units.parameters(rollouts.parameters)
        features = frame.features(rollouts.contexts)
        if frame.estimated is not None:
            log_initial = frame.estimated.log_density(contexts, parameters)
        else:
            log_initial = self._initial.log_density(rollouts.contexts, rollouts.parameters) + units.log_volume
        made_by = np.where(usable, rollouts.behaviour, 0)
        log_behaviour = self._history.log_mixture(contexts, features, parameters, log_initial, made_by)
        rows = padded_size(int(usable.sum()), expected=self.expected_rollouts)
        parts = (contexts, parameters, rollouts.returns, features, log_behaviour)
        return Data(*(pad_rows(part[usable], rows) for part in parts), mask=np.arange(rows) < usable.sum())

    def _contexts(self, contexts: Any, count: int | None) -> np.ndarray:
        if contexts is None:
            if self.context_size or count is None:
                raise InputError(f"ask needs contexts [N, {self.context_size}], or count=N where there are none")
            contexts = np.zeros((count, 0))
        rows = check_rows("contexts", contexts, self.context_size)
        if len(rows) == 0:
            raise InputError("ask needs at least one context; got 0 rows")
        return rows

    def _key(self, stream: int, index: int) -> Array:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), stream), index)
