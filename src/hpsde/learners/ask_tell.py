"""Ask and tell: the shell that all learners share. It checks what comes in and keeps the rollouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hpsde.base.checks import check_count, check_returns, check_rows
from hpsde.base.devices import small_steps
from hpsde.base.draws import fold_in, make_key
from hpsde.base.kept_programs import keeps_programs
from hpsde.base.precision import double_precision
from hpsde.base.program_memory import make_room
from hpsde.base.shapes import Array
from hpsde.errors import AskTellError, InputError, LearningError
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.policy.measured import measured_returns
from hpsde.settings import Settings, changed_settings, full_name
from hpsde.steps.bounds import FROM_INITIAL, Within, are_initial, make_bounds
from hpsde.steps.encoders import context_shape, make_encoder
from hpsde.steps.initial import OfEncoded, make_initial
from hpsde.steps.judging import StepInfo
from hpsde.steps.rollouts import GIVEN, INITIAL, Rollouts

# What the seed is split for: every use of randomness has its own stream.
ASK, UPDATE, DENSITY = range(3)

ROOM_EVERY = 10  # learning steps between two looks at how much room compiled programs leave


class Proposal(NamedTuple):
    """What `ask` proposes: parameters [N, D], the option of each (-1: initial policy), and log pi(xi | s).

    option: its place among the policy's options. number: what that option is called from its birth on (0: initial
    policy); `propose` adds it to what `_draw` gives.
    """

    parameters: np.ndarray
    option: np.ndarray
    log_density: np.ndarray
    number: np.ndarray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Info(StepInfo):
    """Where a learner stands: rollouts told so far, and how the last learning step went."""

    rollouts: int = 0
    failed: int = 0
    updates: int = 0
    to_gain: float = float("inf")

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return asdict(self)


class _Asked(NamedTuple):
    """Rollouts that were proposed and not told yet."""

    contexts: np.ndarray
    option: np.ndarray
    number: np.ndarray
    behaviour: np.ndarray


class Learner(ABC):
    """What all learners do alike. One of its own has SETTINGS, `_draw` and `_estimate`.

    Parameters never leave the `bounds` (low, high): those of a uniform `initial` or of a task that is `bounded` where
    nothing else is said, none at all with None. `tell` takes what was really done, also beyond them.

    `ask` and `tell` are for people: strictly in turn, all rollouts of an ask told at once. Beneath them are
    `propose`, `observe` and `update`, for a caller that keeps account of its rollouts itself. These take contexts as
    rows [N, S], as `check_contexts` gives them.

    Contexts may be of any shape: then `context_size` is that shape, such as (64, 64, 3). With an `encoder`, a function
    [N, 64, 64, 3] -> [N, Z] or an `hpsde.PictureEncoder`, everything is learned on the Z numbers that it gives; they
    are what `rollouts.contexts` holds, and the learner's `context_size` from then on.
    """

    # The dataclass of its settings.
    SETTINGS: ClassVar[type] = Settings
    # The settings that the first learning step decides on, once and for all.
    FIXED: ClassVar[tuple[str, ...]] = ("features",)
    # What a learner must remember besides its rollouts to go on to the bit.
    STATE: ClassVar[tuple[str, ...]] = ("info", "proposals", "_policy", "_policy_rollouts")

    def __init__(
        self,
        context_size: int | tuple[int, ...],
        parameter_size: int,
        *,
        initial: Any,
        initial_rollouts: int = 200,
        expected_rollouts: int = 0,
        seed: int = 0,
        bounds: Any = FROM_INITIAL,
        encoder: Any = None,
        settings: Any = None,
        **changes: Any,
    ):
        self.settings = changed_settings(self.SETTINGS, settings, changes)
        shape = context_shape(context_size)
        self.encoder = make_encoder(encoder, shape)
        self.context_size = shape[0] if self.encoder is None else self.encoder.size
        self.parameter_size = check_count("parameter_size", parameter_size, 1)
        self.initial_rollouts = check_count("initial_rollouts", initial_rollouts, 2)
        self.expected_rollouts = check_count("expected_rollouts", expected_rollouts, 0)
        self.seed = check_count("seed", seed, 0)
        self.rollouts = Rollouts(self.context_size, self.parameter_size)
        self.info = Info()
        self.proposals = 0  # how often parameters were proposed: every time has its own random numbers
        self._initial = make_initial(initial, self.parameter_size, any_context=self.encoder is not None)
        self.bounds = make_bounds(bounds, initial, self.parameter_size)
        self.bounds_are_given = self.bounds is not None and not are_initial(bounds)
        if self.bounds is not None:
            self._initial = Within(self._initial, self.bounds)
        self._start = self._initial  # which takes contexts as they are
        self._last_encoded = np.zeros((0, 0)), np.zeros((0, self.context_size))  # asked, checked and observed in turn
        if self.encoder is not None:
            self._initial = OfEncoded(self._start)
        self.pending = np.zeros(
            (0, self.parameter_size)
        )  # parameters that a caller has asked for, and not observed yet
        self._asked: _Asked | None = None
        self._policy: HierarchicalPolicy | None = None  # of contexts that are encoded
        self._policy_rollouts = 0  # how many rollouts the policy was learned from
        self._begin()

    def _begin(self) -> None:  # noqa: B027 - not all learners need it
        """Set up what a learner of its own kind remembers."""

    @abstractmethod
    def _draw(self, key: Array, rows: np.ndarray, policy: HierarchicalPolicy) -> Proposal:
        """Parameters by the policy, as it explores, in encoded contexts."""

    @abstractmethod
    def _estimate(self, key: Array, usable: np.ndarray) -> HierarchicalPolicy:
        """The policy from the usable rollouts [N]; `info` says how it went."""

    def change_settings(self, changes: dict[str, Any]) -> None:
        """Other settings by name, from the next proposal and the next learning step on."""
        settings = changed_settings(self.SETTINGS, self.settings, changes)
        fixed = [name for name in changes if full_name(self.settings, name).startswith(self.FIXED)]
        if self.info.updates and fixed:
            raise self._fixed(fixed[0])
        self.settings = settings

    def _fixed(self, name: str) -> InputError:
        return InputError(
            f"{name}: the first learning step has decided on it. Make a new run with the setting, and give it "
            "the rollouts of this one: hpsde export, hpsde import"
        )

    def recall(self, contexts: np.ndarray, option: np.ndarray) -> None:  # noqa: B027 - not all learners need it
        """The present policy chose these options [N] in contexts [N, S]; `propose` has said so already."""

    def ask(self, contexts: Any = None, *, count: int | None = None) -> Proposal:
        """Parameters to try in these contexts [N, S]; without contexts (S = 0), `count` of them."""
        if self._asked is not None:
            raise AskTellError(
                f"ask was called again before the {len(self._asked.contexts)} rollouts of the last ask were "
                "told; call tell with their returns (mark those that did not run as failed), or forget_asked"
            )
        rows = self.check_contexts(contexts, count)
        by_policy = self.rollouts.usable >= self.initial_rollouts
        if by_policy:
            self.policy  # noqa: B018 - learns from what was told since
        proposal = self.propose(rows, by_policy)
        self._asked = _Asked(rows, proposal.option, proposal.number, made_by(proposal.option, self.info.updates))
        return proposal

    @keeps_programs
    @small_steps
    @double_precision
    def propose(self, contexts: np.ndarray, by_policy: bool) -> Proposal:
        """Parameters for checked contexts [N, S], by the policy as it stands or by the initial one."""
        key, z = self._key(ASK, self.proposals), self._encoded(contexts)  # refused now, not when the rollout is done
        if not by_policy:
            proposal = self._draw_initial(key, contexts)
            number = np.zeros(len(contexts), dtype=np.int64)
        elif self._policy is None:
            raise AskTellError("there is no policy yet to propose parameters; update must come first")
        else:
            proposal = self._draw(key, z, self._policy)
            number = np.where(proposal.option == INITIAL, 0, self._policy.option_numbers[proposal.option])
        self.proposals += 1
        return proposal._replace(number=number)

    def _draw_initial(self, key: Array, rows: np.ndarray) -> Proposal:
        parameters = self._start.sample(key, rows)
        log_density = self._start.log_density(rows, parameters)
        unknown = np.full(len(rows), np.nan)
        log_density = unknown if log_density is None else log_density
        return Proposal(parameters, np.full(len(rows), INITIAL), log_density)

    @double_precision
    def tell(self, contexts: Any, parameters: Any, returns: Any, *, failed: Any = None) -> None:
        """The returns of the asked rollouts or, when none were asked, rollouts of the initial policy.

        `failed` marks rollouts that gave no return: they are recorded and left out of learning. Nothing is
        taken in unless all of it is in order.
        """
        asked = self._asked
        count = None if asked is None else len(asked.contexts)
        rows, xi, values, lost = self.check_told("tell", contexts, parameters, returns, failed, count)
        if asked is not None:
            _check_same_contexts(rows, asked.contexts)
        behaviour = np.zeros(len(xi), dtype=np.int64) if asked is None else asked.behaviour
        self.check_possible(rows[~lost], xi[~lost], behaviour[~lost])
        option = np.full(len(xi), INITIAL) if asked is None else asked.option
        number = np.zeros(len(xi), dtype=np.int64) if asked is None else asked.number
        self.observe(rows, xi, values, lost, option, behaviour, number)
        self._asked = None

    def add(self, contexts: Any, parameters: Any, returns: Any, *, failed: Any = None) -> None:
        """Rollouts made elsewhere, such as demonstrations or old logs; their density is estimated.

        They count among the first rollouts. It may be called at any time, also between `ask` and `tell`.
        """
        rows, xi, values, lost = self.check_told("add", contexts, parameters, returns, failed)
        who = np.zeros(len(xi), dtype=np.int64)
        self.observe(rows, xi, values, lost, who + INITIAL, who + GIVEN, who)

    def check_told(
        self,
        caller: str,
        contexts: Any,
        parameters: Any,
        returns: Any,
        failed: Any = None,
        count: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Contexts [N, S], parameters [N, D], returns [N] and which of them failed [N], if they fit together."""
        xi = check_rows("parameters", parameters, self.parameter_size, count)
        if len(xi) == 0:
            raise InputError(f"{caller} needs at least one rollout; got 0 rows")
        rows = self.check_contexts(contexts, len(xi), caller)
        self._encoded(rows)
        return rows, xi, *check_returns(returns, len(xi), failed)

    def observe(
        self,
        contexts: np.ndarray,
        parameters: np.ndarray,
        returns: np.ndarray,
        failed: np.ndarray,
        option: np.ndarray,
        behaviour: np.ndarray,
        number: np.ndarray,
    ) -> None:
        """Take in checked rollouts: contexts [N, S], parameters [N, D], the rest [N]."""
        self.rollouts.append(
            contexts=self._encoded(contexts),
            parameters=parameters,
            returns=returns,
            failed=failed,
            option=option,
            number=number,
            behaviour=behaviour,
            iteration=np.full(len(returns), self.rollouts.next_iteration),
        )
        self.info = replace(self.info, rollouts=len(self.rollouts), failed=int(self.rollouts.failed.sum()))

    def check_possible(self, contexts: np.ndarray, parameters: np.ndarray, behaviour: np.ndarray) -> None:
        """An importance weight divides by the density: what the initial policy cannot do must not come from it."""
        log_density = self._start.log_density(contexts, parameters)
        bad = np.flatnonzero([] if log_density is None else np.isneginf(log_density) & (behaviour == 0))
        if len(bad):
            raise InputError(
                "parameters must be possible under the initial policy, whose rollouts these are; row "
                f"{bad[0]}, {parameters[bad[0]].tolist()}, has density 0 ({len(bad)} such). Give an "
                "`initial` that covers them, or add them as data from elsewhere, whose density is estimated"
            )

    def forget_asked(self) -> None:
        """Give up the rollouts of the last ask, so that ask can be called again."""
        self._asked = None

    @property
    def policy(self) -> HierarchicalPolicy:
        """The policy learned from all rollouts told so far, re-estimated when there are new ones."""
        if self._policy is None or self._policy_rollouts != self.rollouts.usable:
            return self.update()
        return self._policy.with_encoder(self.encoder)

    @keeps_programs
    @small_steps
    @double_precision
    def update(self) -> HierarchicalPolicy:
        """Learn from all rollouts observed so far; the new policy."""
        if self.rollouts.usable < 2:
            raise AskTellError(
                f"a policy needs at least 2 rollouts that did not fail; {len(self.rollouts)} were told, "
                f"{int(self.rollouts.failed.sum())} of them failed"
            )
        if self.info.updates % ROOM_EVERY == 0:
            make_room()
        before = {name: getattr(self, name) for name in self.STATE}
        policy = self._estimate(self._key(UPDATE, self.info.updates), ~self.rollouts.failed)
        if not policy.is_finite:
            for name, value in before.items():
                setattr(self, name, value)
            raise self._not_learned()
        self._policy = self._measured(policy)
        self._policy_rollouts = self.rollouts.usable
        self.info = replace(self.info, updates=self.info.updates + 1)
        return self._policy.with_encoder(self.encoder)

    def _measured(self, policy: HierarchicalPolicy) -> HierarchicalPolicy:
        """The policy with what its options have earned, where they are followed from step to step."""
        if policy.numbers is None:
            return policy
        told = self.rollouts
        means, counts = measured_returns(np.asarray(policy.numbers), told.number, told.returns, told.failed)
        return replace(policy, measured_returns=means, measured_rollouts=counts)

    def _not_learned(self) -> LearningError:
        returns = self.rollouts.returns[~self.rollouts.failed]
        return LearningError(
            f"{type(self).__name__} learned no policy from {self.rollouts.usable} rollouts: numbers in it are not "
            f"finite. Returns are from {returns.min():g} to {returns.max():g}: tell returns in units in which they are "
            "of moderate size, and rollouts that gave no return as failed. What was told and learned before is kept"
        )

    def check_contexts(self, contexts: Any, count: int | None, caller: str = "ask") -> np.ndarray:
        """Contexts [N, S] as rows; where there are none, `count` empty ones."""
        if contexts is None:
            if self.context_size:
                shape = (self.context_size,) if self.encoder is None else self.encoder.shape
                raise InputError(f"{caller} needs contexts [{', '.join(['N', *map(str, shape)])}]; got none")
            if count is None:
                raise InputError("ask needs to know how many parameters: ask(count=N)")
            return np.zeros((check_count("count", count, 1), 0))
        if self.encoder is None:
            rows = check_rows("contexts", contexts, self.context_size, count)
        else:
            rows = self.encoder.rows("contexts", contexts, count)
        if len(rows) == 0:
            raise InputError(f"{caller} needs at least one context; got 0 rows")
        return rows

    def _encoded(self, contexts: np.ndarray) -> np.ndarray:
        """What is learned on [N, Z], of checked contexts [N, S]."""
        if self.encoder is None:
            return contexts
        before, z = self._last_encoded
        if not np.array_equal(before, contexts):
            z = self.encoder.encode(contexts)
            self._last_encoded = contexts.copy(), z
        if isinstance(self._initial, OfEncoded):
            self._initial.remember(z, contexts)
        return z

    def _key(self, stream: int, index: int) -> Array:
        return fold_in(fold_in(make_key(self.seed), stream), index)


def made_by(option: np.ndarray, updates: int) -> np.ndarray:
    """Which policy proposed rollouts of these options [N]: the initial one (0), or that of the learning step."""
    return np.where(option == INITIAL, 0, updates)


def _check_same_contexts(told: np.ndarray, asked: np.ndarray) -> None:
    if not np.array_equal(told, asked):
        row = int(np.flatnonzero((told != asked).any(axis=1))[0])
        raise AskTellError(
            f"tell got other contexts than the last ask was given: row {row} is {told[row].tolist()!s:.200}, asked "
            f"was {asked[row].tolist()!s:.200}; tell all rollouts of an ask at once, in its order"
        )
