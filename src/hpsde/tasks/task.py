"""What a task is, and how to make one from a plain return function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from hpsde.base.checks import check_rows, check_shaped
from hpsde.base.distributions import Distribution, Samples, Uniform, as_distribution
from hpsde.base.draws import make_key, with_key
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError
from hpsde.tasks.solutions import Solution

__all__ = [
    "FunctionTask",
    "Task",
    "TaskExtras",
    "check_ready",
    "check_seeds",
    "check_task",
    "task_extras",
    "task_from_function",
    "task_measures",
]

EVALUATION_POINTS = 201
_EVALUATION_SEED = 718_281_828


@runtime_checkable
class Task(Protocol):
    """What the learner needs of a task. What a task may have beyond it is in `TaskExtras`."""

    @property
    def name(self) -> str: ...

    @property
    def context_size(self) -> int:
        """S, the numbers in a context; 0 when the task has none."""

    @property
    def parameter_size(self) -> int:
        """D, the numbers in the parameters of a rollout."""

    def sample_contexts(self, key: Array, n: int) -> Any:
        """`n` contexts from the task's own distribution, [n, S]."""

    def sample_initial(self, key: Array, contexts: Any) -> Any:
        """Parameters of the exploring start policy for contexts [N, S]: [N, D]."""

    def log_initial(self, contexts: Any, parameters: Any) -> Any:
        """Log density of the start policy, log pi_0(parameters | contexts), [N]."""

    def evaluate(self, contexts: Any, parameters: Any) -> Any:
        """The returns [N] of rollouts with contexts [N, S] and parameters [N, D]."""

    def evaluation_contexts(self) -> Any:
        """The contexts [C, S] on which a policy is judged: always the same, never used for learning."""


@dataclass(frozen=True)
class TaskExtras:
    """What a task may say besides what it must, and what holds when it does not.

    description: one line for people.
    features: the features of the context that options are given, by name; "automatic": the learner chooses.
    max_options: O_max, the most options a policy may have.
    density: how options are found, by name; None: as the settings say.
    initial_rollouts, rollouts: rollouts of the start policy, and all rollouts with these included.
    has_initial_density: False when `log_initial` is not known, so that the density must be estimated.
    takes_seeds: True when a rollout draws random numbers. The task is then called
        evaluate(contexts, parameters, seeds=[N] int64), one seed for each rollout, and what a rollout returns
        depends on its context, parameters and seed alone, so that it is the same wherever it runs. Called
        without seeds, the rollouts have the seeds 0, 1, ... N - 1.
    parameter_bounds: (low [D], high [D]) in which solutions are looked for; `evaluate` does not enforce them.
    bounded: True when these are hard bounds: nothing that is proposed or learned leaves them. False: for pictures.
    solutions: the solutions the task is known to have.
    context_shape: the shape of one context where it is more than a row of numbers, such as (64, 64, 3); contexts still
        come as rows [N, S], with all numbers of one in a row.
    figure: the name of the panels (`hpsde.plots.FIGURES`) that show a policy in place of maps and slices: "puddle",
        "rover" or, for pictures of an arm, "postures".
    """

    description: str = ""
    features: Any = "automatic"
    max_options: int = 10
    density: str | None = None
    initial_rollouts: int = 600
    rollouts: int = 1050
    has_initial_density: bool = True
    takes_seeds: bool = False
    parameter_bounds: tuple[np.ndarray, np.ndarray] | None = None
    bounded: bool = False
    solutions: tuple[Solution, ...] = ()
    context_shape: tuple[int, ...] | None = None
    figure: str | None = None


FEW = 350  # first rollouts that climbs can start from, with at most
FEW_PARAMETERS = 4  # parameters (steps/climbing.py)


def default_extras(context_size: int | None, parameter_size: int | None) -> TaskExtras:
    """What holds when a task of these sizes says nothing: without a context single rollouts lead to the tops of hills,
    and fewer need to be drawn before.
    """
    few = context_size == 0 and parameter_size is not None and parameter_size <= FEW_PARAMETERS
    return TaskExtras(initial_rollouts=FEW) if few else TaskExtras()


def task_extras(task: Task) -> TaskExtras:
    """The extras of `task`, each from its attribute of that name or, where it has none, the default."""
    names = TaskExtras.__dataclass_fields__
    otherwise = default_extras(task.context_size, task.parameter_size)
    return replace(otherwise, **{name: getattr(task, name) for name in names if hasattr(task, name)})


def task_measures(task: Task, contexts: Any, parameters: Any) -> Mapping[str, Any]:
    """What the task measures besides the return, name -> [N]; empty when it has no method `measures`."""
    measures = getattr(task, "measures", None)
    return {} if measures is None else measures(contexts, parameters)


def check_task(task: Any) -> Task:
    """`task` itself, or an InputError that names what it lacks."""
    required = [name for name in vars(Task) if not name.startswith("_")]
    missing = [name for name in required if not hasattr(task, name)]
    if missing:
        raise InputError(
            f"task: expected an object with {', '.join(required)}; {type(task).__name__} has no {', '.join(missing)}"
        )
    return task


def check_ready(task: Any) -> None:
    """An InputError where the task, or its return function, says that its rollouts cannot run on this machine.

    It says so by a method `check_ready()` of its own, which raises the error: for want of an extra, say.
    """
    for thing in (task, getattr(task, "function", None)):
        check = getattr(thing, "check_ready", None)
        if check is not None:
            check()


@dataclass(frozen=True, eq=False)
class FunctionTask:
    """A task whose return is a plain function; `task_from_function` makes it and explains its fields."""

    function: Callable[..., Any]
    contexts: Distribution | None
    initial: Distribution
    name: str
    batched: bool = False
    takes_seeds: bool = False
    evaluation: np.ndarray | None = None
    description: str = TaskExtras.description
    features: Any = TaskExtras.features
    max_options: int = TaskExtras.max_options
    initial_rollouts: int = TaskExtras.initial_rollouts
    rollouts: int = TaskExtras.rollouts
    solutions: tuple[Solution, ...] = ()
    numpy_keys: ClassVar[bool] = True
    initial_of_any_context: ClassVar[bool] = True

    @property
    def context_size(self) -> int:
        return 0 if self.contexts is None else self.contexts.size

    @property
    def context_shape(self) -> tuple[int, ...]:
        """Of one context; the function gets it in this shape."""
        return tuple(getattr(self.contexts, "shape", None) or (self.context_size,))

    @property
    def parameter_size(self) -> int:
        return self.initial.size

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        return self.initial.bounds

    @property
    def bounded(self) -> bool:
        return isinstance(self.initial, Uniform)

    @property
    def has_initial_density(self) -> bool:
        return self.initial.has_density

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n S"]:
        """`n` contexts from the context distribution."""
        return np.zeros((n, 0)) if self.contexts is None else _numbers(with_key(self.contexts.sample, key, n))

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N D"]:
        """Parameters from the initial distribution, which is the same in every context."""
        return _numbers(with_key(self.initial.sample, key, len(check_shaped("contexts", contexts, self.context_shape))))

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """Log density of the initial distribution at the parameters."""
        self._checked(contexts, parameters)
        return _numbers(self.initial.log_prob(parameters))

    def evaluate(self, contexts: Any, parameters: Any, seeds: Any = None) -> Float[np.ndarray, " N"]:
        """The function's returns. What it raises passes through; so does a NaN, which is a failed rollout.

        seeds: one whole number for each rollout, [N]; 0, 1, ... where none are given. They go to a function
            that takes seeds, and are of no concern to others.
        """
        s, xi = self._checked(contexts, parameters)
        numbers, s = check_seeds(seeds, len(xi)), s.reshape(len(s), *self.context_shape)
        if self.batched:
            arguments = (xi.copy(),) if self.contexts is None else (s.copy(), xi.copy())
            named = {"seeds": numbers} if self.takes_seeds else {}
            return _batch_returns(self.function(*arguments, **named), len(xi))
        rollouts = zip(xi.copy()) if self.contexts is None else zip(s.copy(), xi.copy(), strict=True)
        seeded = [{"seed": seed} if self.takes_seeds else {} for seed in numbers.tolist()]
        returns = [_one_return(self.function(*each, **seed)) for each, seed in zip(rollouts, seeded, strict=True)]
        return np.array(returns, dtype=float)

    def evaluation_contexts(self) -> Float[np.ndarray, "C S"]:
        """`evaluation` where given; else an even grid of 201 for one bounded number, the one empty context
        where there are none, all samples where these are few, and otherwise 201 draws with a fixed seed."""
        if self.evaluation is not None:
            return np.array(self.evaluation)
        if self.contexts is None:
            return np.zeros((1, 0))
        if self.contexts.bounds is not None and self.contexts.size == 1:
            low, high = self.contexts.bounds
            return np.linspace(low, high, EVALUATION_POINTS)
        if isinstance(self.contexts, Samples) and len(np.asarray(self.contexts.values)) <= EVALUATION_POINTS:
            return np.array(self.contexts.values)
        return _numbers(with_key(self.contexts.sample, make_key(_EVALUATION_SEED), EVALUATION_POINTS))

    def _checked(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        s = check_shaped("contexts", contexts, self.context_shape)
        return s, check_rows("parameters", parameters, self.parameter_size, rows=len(s))


def task_from_function(
    function: Any,
    *,
    initial: Any,
    contexts: Any = None,
    batched: bool = False,
    name: str | None = None,
    evaluation: Any = None,
    **extras: Any,
) -> FunctionTask:
    """A task from a return function.

    function: (context [S], parameters [D]) -> the return of one rollout; without contexts, (parameters [D])
        -> the return. It always gets numpy arrays, also of one number, and returns NaN when a rollout failed.
        One that has a parameter named `seed` (batched: `seeds`, an array [N]) is given it by name: a whole
        number, another one for each rollout, of which all that is random in the rollout should be drawn.
    initial: the distribution of the first, exploring parameters: hpsde.Uniform, hpsde.Gaussian, or an array
        of samples [M, D].
    contexts: the distribution of the contexts in the same forms, or None when the task has no context. Samples may be
        of any shape [M, ...], such as pictures: the function gets them in that shape.
    batched: True when the function takes all rollouts at once, ([N, S], [N, D]) -> [N] or ([N, D]) -> [N].
    name: what to call the task; by default the function's own name.
    evaluation: contexts [C, S] on which a policy is judged; by default those of
        `FunctionTask.evaluation_contexts`.
    extras: description, features, max_options, initial_rollouts, rollouts, solutions, as in `TaskExtras`.
    """
    if not callable(function):
        raise InputError(f"function: expected something to call, got {type(function).__name__}")
    allowed = {"description", "features", "max_options", "initial_rollouts", "rollouts", "solutions"}
    if unknown := sorted(extras.keys() - allowed):
        raise InputError(f"unknown arguments {', '.join(unknown)}; valid extras are: {', '.join(sorted(allowed))}")
    context_distribution = None if contexts is None else as_distribution(contexts, "contexts", shaped=True)
    own_name, signature = getattr(function, "__name__", type(function).__name__), _signature(function)
    if signature is not None:
        _check_call(own_name, signature, context_distribution is not None)
    if evaluation is not None:
        size = 0 if context_distribution is None else context_distribution.size
        shape = getattr(context_distribution, "shape", None) or (size,)
        evaluation = np.array(check_shaped("evaluation", evaluation, shape))
        evaluation.setflags(write=False)
    initial = as_distribution(initial, "initial")
    extras = {"initial_rollouts": first_by_default(context_distribution, initial)} | extras
    return FunctionTask(
        function=function,
        contexts=context_distribution,
        initial=initial,
        name=own_name if name is None else name,
        batched=batched,
        takes_seeds=signature is not None and ("seeds" if batched else "seed") in signature.parameters,
        evaluation=evaluation,
        **extras,
    )


def first_by_default(contexts: Distribution | None, initial: Distribution) -> int:
    """How many first rollouts a task with these distributions has when it says nothing."""
    return default_extras(0 if contexts is None else contexts.size, initial.size).initial_rollouts


def check_seeds(seeds: Any, rows: int) -> np.ndarray:
    """Seeds [rows], int64, none below 0; 0, 1, ... where none are given."""
    if seeds is None:
        return np.arange(rows, dtype=np.int64)
    array = np.asarray(seeds)
    if array.shape != (rows,) or (rows and array.dtype.kind not in "iu"):
        raise InputError(f"seeds must be {rows} whole numbers; got {_described(seeds, array)}")
    if rows and (array.min() < 0 or array.max() > np.iinfo(np.int64).max):
        raise InputError(f"seeds must lie between 0 and 2^63 - 1; got {array.min()} to {array.max()}")
    return array.astype(np.int64)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not say
        return None


def _check_call(name: str, signature: inspect.Signature, with_contexts: bool) -> None:
    """An error where a function of this signature cannot be called as it will be."""
    seeds = {seed: 0 for seed in ("seed", "seeds") if seed in signature.parameters}
    try:
        signature.bind(*(("context",) if with_contexts else ()), "parameters", **seeds)
    except TypeError:
        called = (
            "with a context and parameters; take both, or leave `contexts` out"
            if with_contexts
            else "with parameters alone; give the contexts it needs, as in contexts=hpsde.Uniform(0.0, 1.0)"
        )
        raise InputError(f"{name} takes {signature}, and is called {called}") from None


def _one_return(value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise InputError(
            f"the return function must give one number for a rollout, got {_described(value, array)}; "
            "a function of whole batches needs batched=True"
        )
    return float(array.reshape(()))


def _batch_returns(value: Any, n: int) -> np.ndarray:
    array = np.asarray(value)
    if array.shape not in ((n,), (n, 1)) or array.dtype.kind not in "fiub":
        raise InputError(
            f"the batched return function must give shape [{n}], a number for each rollout, "
            f"got {_described(value, array)}"
        )
    return array.astype(float).reshape(n)


def _described(value: Any, array: np.ndarray) -> str:
    return type(value).__name__ if array.dtype.kind == "O" else f"{array.dtype} of shape {list(array.shape)}"


def _numbers(values: Any) -> np.ndarray:
    """`values` as numpy's, also where a distribution of the user's own gives JAX arrays."""
    return np.asarray(values, dtype=float)
