"""Rollouts as arrays: from the columns of the database, if these can be those of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.base.checks import usable_numbers
from hpsde.errors import FileFormatError
from hpsde.runs import events
from hpsde.runs.events import Event
from hpsde.runs.rows import Columns
from hpsde.steps.rollouts import REPLACED

OptionNumbers = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rollouts as arrays. `parameters` are those that were run: as asked, unless others were told.

    option: place among the options of the policy that proposed it, -1 for the initial one. number: what that option is
    called in all learning steps, 0 for the initial policy. behaviour: who made it as a learner counts, the learning
    step of `policy` unless a correction has replaced that since (`events.made_by`); then its number is 0.
    """

    id: np.ndarray
    ask: np.ndarray
    status: np.ndarray
    contexts: np.ndarray
    parameters: np.ndarray
    option: np.ndarray
    number: np.ndarray
    log_density: np.ndarray
    returns: np.ndarray
    seed: np.ndarray
    policy: np.ndarray
    behaviour: np.ndarray
    step: np.ndarray  # the learning step that first used it, 0 where none has

    def __len__(self) -> int:
        return len(self.id)


def make_rows(
    found: Columns, context_size: int, parameter_size: int, changes: Sequence[Event], option_numbers: OptionNumbers
) -> Rows:
    """The rollouts of these columns. `changes` are the run's events; `option_numbers` says what the options of policies
    and places [N] are called.
    """
    try:
        whole = {name: _whole(found[name]) for name in ("id", "ask", "option", "seed", "policy", "step")}
        executed = zip(found["parameters"], found["executed"], strict=True)
        behaviour = events.made_by(changes, whole["id"], whole["policy"])
        number = option_numbers(whole["policy"], whole["option"])
        rows = Rows(
            **whole,
            status=np.array(found["status"], dtype="U6"),
            contexts=numbers("context", found["id"], found["context"], context_size),
            parameters=numbers(
                "parameters", found["id"], [asked if run is None else run for asked, run in executed], parameter_size
            ),
            number=np.where(behaviour == REPLACED, 0, number),
            log_density=_real(found["log_density"]),
            returns=_real(found["return"]),
            behaviour=behaviour,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(str(error)) from error
    return _checked(rows)


def numbers(name: str, ids: Sequence[int], blobs: Sequence[bytes], size: int) -> np.ndarray:
    """Blobs of `size` numbers each as rows [N, size]."""
    lengths = list(map(len, blobs))
    if set(lengths) - {8 * size}:
        number, length = next(pair for pair in zip(ids, lengths, strict=True) if pair[1] != 8 * size)
        raise ValueError(f"{name} of rollout {number} has {length} bytes, not {size} numbers of 8")
    values = np.frombuffer(b"".join(blobs), dtype="<f8").astype(float).reshape(len(blobs), size)
    wrong = np.flatnonzero(~usable_numbers(values).all(axis=1))
    if len(wrong):
        raise ValueError(f"{name} of rollout {ids[wrong[0]]} has numbers that are not finite: {values[wrong[0]]}")
    return values


def _whole(values: Sequence[int | None]) -> np.ndarray:
    return np.array([0 if value is None else value for value in values], dtype=np.int64)


def _real(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _checked(rows: Rows) -> Rows:
    """The rows, if they can be those of a run."""
    wrong = ~np.isin(rows.status, ("asked", "done", "failed"))
    wrong |= (rows.status == "done") & ~usable_numbers(rows.returns)
    wrong |= (rows.policy < 0) | (rows.option < -1) | ((rows.option == -1) != (rows.policy == 0))
    wrong |= (rows.ask < 1) | (rows.seed < 0) | (rows.step < 0)
    if np.any(wrong):
        raise FileFormatError(f"rollout {rows.id[wrong][0]} has values that no rollout has")
    return rows


def named_options(names: dict[int, Any], policy: np.ndarray, option: np.ndarray) -> np.ndarray:
    """What the options of policies and places [N] are called, given the numbers of the options of each policy; 0: no
    option. Where a policy has no numbers, an option is called by its place, from 1 on.
    """
    size = max([1, *map(len, names.values())])
    steps = np.array(sorted(names), dtype=np.int64)
    table = np.zeros((len(steps) + 1, size), dtype=np.int64)
    for i, step in enumerate(steps.tolist()):
        table[i, : len(names[step])] = names[step]
    place = np.searchsorted(steps, policy)
    known = (place < len(steps)) & (np.append(steps, -1)[place] == policy) & (option >= 0) & (option < size)
    called = table[np.where(known, place, len(steps)), np.where(known, option, 0)]
    return np.where(called > 0, called, option + 1)
