"""Tell that may be said twice: a client that got no answer tells again, and nothing is told a second time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpsde.errors import AskTellError, FarReturnWarning, HpsdeError, InputError
from hpsde.runs.ledger import Ledger, Told


class Taken(NamedTuple):
    """What became of the rollouts of one request: told now, or told so before; and what is to be said of them."""

    told: list[int]
    again: list[int]
    warnings: list[str]


class UnknownRolloutError(AskTellError):
    """There is no rollout of this number."""


def tell_together(ledger: Ledger, requests: Sequence[Sequence[Told]]) -> list[Taken | Exception]:
    """Take in the rollouts of all requests in one transaction; where that cannot be, each request by itself, all of it
    or nothing. What is answered is on disk.
    """
    everything = [each for request in requests for each in request]
    try:
        said = _tell(ledger, everything)
    except HpsdeError:
        return [_one(ledger, request) for request in requests]
    return [_taken(request, [], said) for request in requests]


def _one(ledger: Ledger, request: Sequence[Told]) -> Taken | Exception:
    try:
        check_known(ledger, [each.id for each in request])
        before = _told_before(ledger, request)
        again = [each.id for each in request if each.id in before]
        new = [each for each in request if each.id not in before]
        return _taken(new, again, _tell(ledger, new) if new else [])
    except HpsdeError as error:
        return error


def check_known(ledger: Ledger, ids: Sequence[int]) -> None:
    """UnknownRolloutError where there is no rollout of one of these numbers."""
    last = ledger.store.position()[0]
    if unknown := [number for number in ids if not 1 <= number <= last]:
        raise UnknownRolloutError(f"there is no rollout {unknown[0]}: the last one asked for is {last}")


def _tell(ledger: Ledger, told: Sequence[Told]) -> list[str]:
    """Tell, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FarReturnWarning)
        ledger.tell_each(told)
    return [str(warning.message) for warning in caught if issubclass(warning.category, FarReturnWarning)]


def _taken(new: Sequence[Told], again: list[int], said: Sequence[str]) -> Taken:
    mine = [text for text in said if any(f"of rollout {each.id} is" in text for each in new)]
    return Taken([each.id for each in new], again, mine)


def _told_before(ledger: Ledger, request: Sequence[Told]) -> set[int]:
    """The rollouts of a request that were told before, and the same; an error where one was told something else."""
    rows = ledger.store.rows_of([each.id for each in request])
    place = {int(number): i for i, number in enumerate(rows.id)}
    before = set()
    for each in request:
        i = place[each.id]
        if rows.status[i] == "asked":
            continue
        if not _is_same(each, str(rows.status[i]), float(rows.returns[i]), rows.parameters[i]):
            known = f"with the return {float(rows.returns[i])!r}" if rows.status[i] == "done" else "as failed"
            raise AskTellError(
                f"rollout {each.id} was told already, {known}; what came now is something else and was not taken. "
                "If what was told is wrong, correct it"
            )
        before.add(int(each.id))
    return before


def _is_same(told: Told, status: str, value: float, parameters: Any) -> bool:
    """Whether this was told before. A failure is one, whatever its reason; parameters count where they are given."""
    if (told.value is None) == (told.failed is None):
        raise InputError(f"rollout {told.id}: expected a return, or the reason why it failed; one of the two")
    same = status == "failed" if told.value is None else status == "done" and value == told.value
    return same and (told.parameters is None or np.array_equal(np.asarray(told.parameters, dtype=float), parameters))
