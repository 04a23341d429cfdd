"""What a new run is made of: from the words or objects of its user to a configuration, and from that to a learner."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpsde.base.checks import check_count, check_tolerance
from hpsde.base.distributions import as_distribution
from hpsde.base.groups import Group, named, said_of
from hpsde.errors import FileFormatError, InputError
from hpsde.learners.ask_tell import Learner
from hpsde.learning import batch_size, budget
from hpsde.methods import encoder_for, new_learner, task_settings
from hpsde.problems import Problem, distribution_text, problem_from_words
from hpsde.runs.config import RunConfig, versions
from hpsde.runs.folder import CONFIG
from hpsde.steps.bounds import bounds_text
from hpsde.steps.encoders import Encoder, context_shape, make_encoder
from hpsde.tasks.task import check_task, task_extras, task_from_function

CHUNK = 25


def make_config(
    what: Any,
    words: dict[str, Any],
    *,
    shape: tuple[int, ...] | None = None,
    name: str,
    method: str,
    seed: int,
    rollouts: int | None,
    initial_rollouts: int | None,
    batch: int | None,
    chunk: int | None,
    measure: bool | None,
    tolerance: float,
    settings: dict[str, Any],
    encoder: Any = None,
) -> tuple[RunConfig, Any, Learner]:
    """A new run's configuration, its task where there is one, and its learner, which has the encoder.

    `Run.create` explains the arguments. shape: of a context, where nothing else says it.

    All that is wrong with the settings shows when the learner is made.
    """
    problem, task = problem_and_task(what, words)
    extras = task_extras(task) if problem is None else problem.extras(task)
    first, total = budget(extras, initial_rollouts, rollouts)
    given = task_settings(method, extras, getattr(task, "name", name))
    if problem is not None:
        given |= {} if problem.bounds is None else {"bounds": problem.bounds}
        given |= problem.settings | ({} if problem.max_options is None else {"max_options": problem.max_options})
    context_size = int(getattr(problem if task is None else task, "context_size"))  # noqa: B009 - of either
    encodes = make_encoder(
        encoder_for(encoder, task, seed).get("encoder"), context_shape(shape or extras.context_shape or context_size)
    )
    config = RunConfig(
        run=uuid.uuid4().hex,
        name=str(task.name) if task is not None else (problem and problem.name) or name,
        problem=None if problem is None else problem.as_dict(),
        context_size=context_size,
        parameter_size=int(getattr(problem if task is None else task, "parameter_size")),  # noqa: B009
        method=method,
        seed=check_count("seed", seed, 0),
        rollouts=total,
        initial_rollouts=first,
        expected_rollouts=total,
        batch=batch_size(total, batch, context_size),
        chunk=check_count("chunk", chunk or (CHUNK if getattr(task, "batched", True) else 1), 1),
        measure=problem is not None and problem.task is not None if measure is None else measure,
        settings=storable_settings(given | settings),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        tolerance=check_tolerance(tolerance),
        encoder="" if encodes is None else encodes.kind,
    )
    return config, task, learner_of(config, task, encodes)


def problem_and_task(what: Any, words: dict[str, Any]) -> tuple[Problem | None, Any]:
    """The problem as a file holds it, None where it cannot; and the task, None where rollouts are told by hand."""
    given = {name: value for name, value in words.items() if value is not None}
    for name in ("contexts", "initial"):
        if name in given and not isinstance(given[name], str):
            given[name] = distribution_text(as_distribution(given[name], name))
    if what is None:
        return Problem(**given), None
    if isinstance(what, str | Path):
        problem = problem_from_words(str(what), **given)
        return problem, problem.make_task()
    if isinstance(what, Problem):
        problem = what.with_words(**given)
        return problem, problem.make_task() if problem.runnable else None
    if hasattr(what, "evaluate"):
        if given:
            raise InputError(f"a task has its own contexts and initial distribution; got {', '.join(given)} besides")
        return None, check_task(what)
    batched = bool(given.pop("batched", False))
    problem = Problem(**given)
    contexts, initial = problem.context_distribution, problem.initial_distribution
    return problem, task_from_function(what, contexts=contexts, initial=initial, batched=batched)


def learner_of(config: RunConfig, task: Any, encoder: Encoder | None = None) -> Learner:
    """The learner of a run before anything was told."""
    initial, problem = task, stored_problem(config)
    if problem is not None and (task is None or problem.initial is not None):
        if problem.is_own_task:
            raise InputError(
                f"this run's first parameters come from {problem.function}, which is code that its folder names: give "
                "the task again, Run.open(folder, task=task), or say that you trust the folder, "
                "Run.open(folder, trust=True) or --trust"
            )
        initial = problem.initial_policy()
    if initial is None:
        raise InputError(
            f"this run was made with a task of your own, {config.name}; give it again: Run.open(folder, task=task)"
        )
    return new_learner(
        config.method,
        config.context_size,
        config.parameter_size,
        initial=initial,
        initial_rollouts=config.initial_rollouts,
        expected_rollouts=config.expected_rollouts,
        seed=config.seed,
        encoder=encoder,
        **config.settings,
    )


def trusted_task(config: RunConfig) -> Any:
    """The task that a run's first parameters come from, where the folder's words alone do not say them, else None.

    This runs code that the folder names.
    """
    problem = stored_problem(config)
    return problem.make_task() if problem is not None and problem.is_own_task else None


def stored_problem(config: RunConfig) -> Problem | None:
    """What a run is about, in words; None where they do not say it."""
    try:
        return None if config.problem is None else Problem.from_dict(config.problem)
    except FileFormatError as error:
        raise FileFormatError(f"{CONFIG} is damaged: {error}") from None


def storable_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, if a file can hold them; groups one setting after the other, bounds as words."""
    if "bounds" in settings:
        settings = settings | {"bounds": bounds_text(settings["bounds"])}
    stored: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Group):
            stored |= named(value) if name == "settings" else said_of(value, name)
        else:
            stored[name] = value
    for name, value in stored.items():
        if callable(value):
            raise InputError(f"{name}: a run that is stored needs settings by name; got a function")
    return stored
