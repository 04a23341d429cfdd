"""The learned hierarchical policy: a gate over option policies, in the user's units."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde.base.arrays import is_jax, leaves, map_arrays
from hpsde.base.checks import as_numbers, check_rows
from hpsde.base.draws import make_key, numbers_of
from hpsde.base.precision import double_precision
from hpsde.base.shapes import Array
from hpsde.errors import InputError
from hpsde.policy.acting import Acting, GPInUse
from hpsde.policy.doubts import Doubt
from hpsde.steps.encoders import Encoder
from hpsde.steps.features import FeatureMap
from hpsde.steps.rollouts import Units

if TYPE_CHECKING:
    from hpsde.steps.gate import Optimism, TrainedGate
    from hpsde.steps.gaussian import LinearGaussian
else:  # these modules load JAX, which a policy in use does without
    TrainedGate = Optimism = LinearGaussian = Any

LATER = ("standard_options", "gate")
"""What a loaded policy makes of its fields when it is first asked for: a policy in use needs none of it."""

PREPARED = 500  # known contexts, at least this many or all, at which options are looked at beforehand
MANY = 256  # contexts at once for which that is worth while


@dataclass(frozen=True, eq=False)
class Option:
    """One option policy N(xi | mean(s), covariance)."""

    index: int
    policy: HierarchicalPolicy = field(repr=False)
    mean_return: float
    """Return-weighted mean return of the rollouts behind it."""
    number: int
    """What it is called, from its birth on: 1, 2, 3, ...; the index is its place among today's options."""
    measured_return: float | None = None
    """Mean return of the newest rollouts that it has made, 20 at most; None where it has made none."""
    measured_rollouts: int = 0
    """How many rollouts that is the mean of."""

    def mean(self, contexts: Any = None) -> np.ndarray:
        """Mean parameters [C, D] in contexts [C, S]; none are needed where S = 0."""
        return self.policy.option_means(contexts)[self.index]

    @property
    def covariance(self) -> np.ndarray:
        """Covariance [D, D] of the parameters."""
        standard = self.policy.acting.options.Sigma[self.index]
        return self.policy.units.raw_differences(self.policy.units.raw_differences(standard).T)


@dataclass(frozen=True, eq=False)
class HierarchicalPolicy:
    """pi(xi | s) = sum_o pi(o | s) pi(xi | s, o). Use `act`; the rest is for those who look inside.

    What it does in use is computed by numpy from the numbers that its file has (acting.py): a loaded policy gives the
    same bits in every process and thread, compiles nothing, and loads no JAX. Samples and densities are JAX's.
    """

    standard_options: LinearGaussian = field(repr=False)  # in standard units, padded
    kept: np.ndarray  # [O] which of them exist
    gate: TrainedGate = field(repr=False)
    features: FeatureMap = field(repr=False)
    units: Units = field(repr=False)
    mean_returns: np.ndarray
    known_contexts: np.ndarray = field(repr=False)  # contexts of the rollouts learned from, for the summary
    numbers: np.ndarray | None = None  # [O] what each option is called from its birth on; None: nobody counted
    tried: np.ndarray | None = None  # [O] which options have rollouts of their own; None: nobody counted
    measured_returns: np.ndarray | None = (
        None  # [O] mean return of the newest rollouts each option made; None: not known
    )
    measured_rollouts: np.ndarray | None = None  # [O] how many rollouts those are
    doubts: tuple[Doubt, ...] = ()
    """What the learner is not sure of; empty where nothing speaks against the policy."""
    encoder: Encoder | None = field(default=None, repr=False)
    """What makes a few numbers of a context, on which all else works; None: contexts are a few numbers."""

    @classmethod
    def of_fields(cls, fields: Mapping[str, np.ndarray], gate: str, options: str, **parts: Any) -> HierarchicalPolicy:
        """The policy of a file's fields with those kinds of gate and options; `parts`: all but what is made LATER."""
        policy = cls.__new__(cls)
        policy.__dict__.update({"_fields": fields, "_gate_kind": gate, "_options_kind": options} | parts)
        return policy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in LATER or "_fields" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            from hpsde.policy.file import made_later

            made = made_later(name, self._gate_kind, self._options_kind, self._fields, self.units)
            return self.__dict__.setdefault(name, made)

    @functools.cached_property
    def acting(self) -> Acting:
        """Options and gate as they are in use."""
        from hpsde.policy.file import policy_arrays

        fields = self.__dict__["_fields"] if "_fields" in self.__dict__ else policy_arrays(self)
        return Acting(self.gate_kind, self.options_kind, fields, self.units.limits)

    @property
    def gate_kind(self) -> str:
        """The name of the gate: gp, softmax or marginal."""
        return self.__dict__.get("_gate_kind") or self.gate.kind

    @property
    def options_kind(self) -> str:
        """The name of the kind of options: linear, or another (steps/option_policies.py)."""
        if "_options_kind" in self.__dict__:
            return str(self.__dict__["_options_kind"])
        h = self.standard_options.h
        return "linear" if h is None else str(h.kind)

    @property
    def context_size(self) -> int:
        """S, how many numbers a context has."""
        return len(self.units.context_centre) if self.encoder is None else math.prod(self.encoder.shape)

    @property
    def context_shape(self) -> tuple[int, ...]:
        """The shape of a context: [S] or, of a picture, that of the picture."""
        return (self.context_size,) if self.encoder is None else self.encoder.shape

    def with_encoder(self, encoder: Encoder | None) -> HierarchicalPolicy:
        """The same policy for contexts that this encodes."""
        if encoder is self.encoder:
            return self
        policy = type(self).__new__(type(self))
        policy.__dict__.update(self.__dict__ | {"acting": self.acting, "encoder": encoder})
        return policy

    @property
    def of_encoded(self) -> HierarchicalPolicy:
        """The same policy for contexts that are encoded, such as `known_contexts`."""
        return self.with_encoder(None)

    def encode(self, contexts: Any) -> np.ndarray:
        """The numbers [C, Z] that the policy sees of contexts [C, ...]."""
        return self._contexts(contexts)[0]

    @property
    def parameter_size(self) -> int:
        """D, how many parameters the policy gives."""
        return len(self.units.parameter_centre)

    @property
    def options(self) -> list[Option]:
        """The option policies, in a fixed order."""
        values, numbers = self.mean_returns[self.kept], self.option_numbers
        if self.measured_returns is None or self.measured_rollouts is None:
            return [Option(o, self, float(values[o]), int(numbers[o])) for o in range(len(values))]
        means, counts = self.measured_returns[self.kept], self.measured_rollouts[self.kept].astype(int)
        measured = [float(mean) if count else None for mean, count in zip(means, counts, strict=True)]
        return [
            Option(o, self, float(values[o]), int(numbers[o]), measured[o], int(counts[o])) for o in range(len(values))
        ]

    @property
    def option_numbers(self) -> np.ndarray:
        """What the options are called [O], in their order: 1, 2, 3, ... where nobody counted."""
        if self.numbers is None:
            return np.arange(1, int(self.kept.sum()) + 1)
        return np.asarray(self.numbers)[self.kept]

    def act(self, context: Any = None) -> np.ndarray:
        """The best known parameters: [D] for one context [S], [N, D] for many [N, S]. No context: S = 0.

        Contexts that are encoded have their own shape in place of [S].
        """
        rows, single = self._contexts(context)
        means, chosen = self._chosen(rows)
        parameters = self.units.raw_parameters(means[chosen, np.arange(len(chosen))])
        return parameters[0] if single else parameters

    def choose(self, contexts: Any = None) -> np.ndarray:
        """The greedy option in each context [C]; one that was never tried only where none was."""
        return self._chosen(self._contexts(contexts)[0])[1]

    def prepare(self) -> None:
        """Compute now what makes `act` fast. `load_policy` does so, and `act` where it is asked in many contexts."""
        rows = self.known_contexts[:: max(len(self.known_contexts) // PREPARED, 1)]
        self.acting.prepare(self.features(rows), self.units.contexts(rows))

    def _chosen(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard means of all options [O, C, D], and the option in each context [C]."""
        features, allowed = self.features(rows), np.ones(int(self.kept.sum()), dtype=bool)
        if self.tried is not None and np.any(tried := np.asarray(self.tried)[self.kept]):
            allowed = tried
        if len(rows) >= MANY and not self.acting.is_prepared:
            self.prepare()
        means = self.acting.options.means(features)
        with np.errstate(all="ignore"):
            return means, self.acting.choose(means, features, self.units.contexts(rows), allowed)

    def option_means(self, contexts: Any = None) -> np.ndarray:
        """Mean parameters of every option in every context [O, C, D]."""
        rows, _ = self._contexts(contexts)
        return self.units.raw_parameters(self.acting.options.means(self.features(rows)))

    def expected_returns(self, contexts: Any = None) -> np.ndarray:
        """Expected return of every option in every context [O, C]; without a GP gate, one number for each."""
        rows, _ = self._contexts(contexts)
        if not isinstance(gate := self.acting.gate, GPInUse):
            return np.repeat(self.mean_returns[self.kept][:, None], len(rows), axis=1)
        mean, _ = self._moments(gate, rows, deviations=False)
        return gate.warp.inverse(mean) + self.units.level(rows)[None]

    def expected_deviations(self, contexts: Any = None) -> np.ndarray:
        """Standard deviation of `expected_returns` [O, C], by what the model knows; NaN without a GP gate."""
        rows, _ = self._contexts(contexts)
        if not isinstance(gate := self.acting.gate, GPInUse):
            return np.full((int(self.kept.sum()), len(rows)), np.nan)
        mean, deviation = self._moments(gate, rows, deviations=True)
        low, high = (gate.warp.inverse(mean + sign * deviation) for sign in (-1.0, 1.0))
        return 0.5 * (high - low)

    def _moments(self, gate: GPInUse, rows: np.ndarray, deviations: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the options' scores [O, C]."""
        means = self.acting.options.means(self.features(rows))
        with np.errstate(all="ignore"):
            return gate.moments(means, self.units.contexts(rows), deviations)

    @double_precision
    def sample(self, key: Array | int | np.integer, contexts: Any = None) -> np.ndarray:
        """Parameters drawn from the greedy option of each context; `key` is a JAX key or a seed."""
        rows, single = self._contexts(contexts)
        parameters = self.sample_options(_as_key(key), rows, self._chosen(rows)[1])
        return parameters[0] if single else parameters

    @double_precision
    def sample_options(self, key: Array, contexts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Parameters [N, D] drawn from the given option of each context, which is encoded."""
        from hpsde.steps import gaussian

        slots = np.flatnonzero(self.kept)[chosen]
        return self.units.raw_parameters(gaussian.draw(key, self.standard_options, self.features(contexts), slots))

    def log_prob(self, contexts: Any, parameters: Any) -> np.ndarray:
        """log pi(xi | s) [N] of the policy in use, whose gate is greedy: the chosen option's log density.

        Parameters [N, D] in contexts [N, S]; a single context [S], or None where S = 0, holds for all rows.
        """
        rows, xi = self._pairs(contexts, parameters)
        return self._log_option_densities(rows, xi)[self._chosen(rows)[1], np.arange(len(rows))]

    @double_precision
    def log_option_densities(self, contexts: Any, parameters: Any) -> np.ndarray:
        """log pi(xi | s, o) [O, N] of every option; arguments as for `log_prob`."""
        return self._log_option_densities(*self._pairs(contexts, parameters))

    def _log_option_densities(self, rows: np.ndarray, xi: np.ndarray) -> np.ndarray:
        from hpsde.steps import gaussian

        values = gaussian.log_density(self._kept_options, self.features(rows), self.units.parameters(xi))
        return np.asarray(values) - self.units.log_volume

    def assign(self, contexts: Any, parameters: Any) -> np.ndarray:
        """The option whose policy explains each rollout best [N]; arguments as for `log_prob`."""
        return np.argmax(self.log_option_densities(contexts, parameters), axis=0)

    @property
    def is_finite(self) -> bool:
        """Whether all its numbers are finite, but for bounds, which may be absent."""
        numbers = (self.standard_options._replace(low=None, high=None), self.mean_returns)
        units = self.units._replace(parameter_low=np.zeros(0), parameter_high=np.zeros(0))
        return all(bool(np.all(np.isfinite(leaf))) for leaf in leaves((numbers, tuple(units), self.gate)))

    def summary(self) -> str:
        """A few lines for people: the options, where each rules, what return to expect."""
        from hpsde.policy.summary import summarise

        return summarise(self)

    def __str__(self) -> str:
        return self.summary()

    def save(self, path: str | Path) -> None:
        """Write the policy to one file (see docs/policy_file.md); `hpsde.load_policy` reads it."""
        from hpsde.policy.file import save_policy

        save_policy(self, path)

    @double_precision
    def gate_scores(self, rows: np.ndarray, optimism: Optimism | None = None) -> np.ndarray:
        """What the gate maximises, of the kept options [O, C], as learners ask it, also with `optimism`."""
        from hpsde.steps import gates

        asked = rows if self.context_size else rows[:1]  # without a context all rows are the same
        given = self.standard_options, self.kept, self.features(asked), self.units.contexts(asked)
        values = gates.scores(self.gate, *given, optimism)[self.kept]
        return values if self.context_size else np.repeat(values, len(rows), axis=1)

    @double_precision
    def standard_means(self, rows: np.ndarray) -> np.ndarray:
        """Mean parameters of the kept options in standard units [O, C, D], as learners ask for them."""
        from hpsde.steps import gaussian

        return np.asarray(gaussian.means(self._kept_options, self.features(rows)))

    @property
    def _kept_options(self) -> LinearGaussian:
        return map_arrays(lambda part: part[self.kept], self.standard_options)

    def _contexts(self, contexts: Any) -> tuple[np.ndarray, bool]:
        """Contexts as rows [C, S], encoded, and whether a single one was meant."""
        if contexts is None:
            if self.context_size:
                raise InputError(f"this policy needs a context of {self.context_size} numbers; got none")
            return np.zeros((1, 0)), True
        array = as_numbers("context", contexts)
        if array.ndim == 0 and self.context_size == 1:
            array = array[None]
        if self.encoder is not None:
            single = array.shape in (self.encoder.shape, (self.context_size,))
            rows = self.encoder.rows("context", array[None] if single else array)
            return self.encoder.encode(rows), single
        single = array.ndim == 1 and array.shape[0] == self.context_size
        rows = check_rows("context", array[None] if single else array, self.context_size)
        return rows, single

    def _pairs(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        """Contexts [N, S] and parameters [N, D], row by row."""
        rows, single = self._contexts(contexts)
        xi = check_rows("parameters", parameters, self.parameter_size, None if single else len(rows))
        return (np.repeat(rows, len(xi), axis=0) if single else rows), xi


def _as_key(key: Any) -> Array:
    """A JAX key as it is, also one of the old kind, two numbers; or that of a seed."""
    if isinstance(key, (int, np.integer)) and -(2**63) <= key < 2**63:
        return make_key(int(key))
    if is_jax(key) or isinstance(key, np.ndarray):
        is_key = key.shape == () and str(key.dtype).startswith("key<")
        if is_key or (key.dtype == np.uint32 and key.shape == (2,)):
            return numbers_of(key)
    raise InputError(f"key: expected a JAX key or a seed, a whole number below 2^63; got {key!r:.80}")
