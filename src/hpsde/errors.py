"""The errors of hpsde. Each says what was expected and what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HpsdeError(Exception):
    """Base of all errors that hpsde raises on purpose."""


class InputError(HpsdeError, ValueError):
    """A value from the user does not fit: wrong shape, not finite, out of range."""


class AskTellError(HpsdeError, RuntimeError):
    """ask and tell were called in an order that has no meaning."""


class LearningError(HpsdeError, ArithmeticError):
    """A learning step came to numbers that are not finite; what was learned before is kept."""


class UnknownNameError(HpsdeError, ValueError):
    """A name that stands for nothing; the message lists the names that do, and the one that is nearest."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]):
        self.kind, self.name, self.valid = kind, name, tuple(valid)
        last = {each.rpartition(".")[2]: each for each in reversed(self.valid)}  # of update.epsilon, epsilon
        nearest = difflib.get_close_matches(str(name), self.valid, n=1)
        nearest = nearest or [last[each] for each in difflib.get_close_matches(str(name), last, n=1)]
        meant = f". Did you mean {nearest[0]!r}?" if nearest else ""
        super().__init__(f"unknown {kind} {name!r}; valid are: {', '.join(self.valid)}{meant}")


class FileFormatError(HpsdeError, ValueError):
    """A file is not what it should be: another format, a newer version, damaged."""


class StorageError(HpsdeError, OSError):
    """A run's folder cannot be written or read: disk full, no permission, a disk that fails."""


class RunLockedError(HpsdeError, RuntimeError):
    """Another process is working on the same run."""


class RolloutsFailedError(HpsdeError, RuntimeError):
    """So many rollouts failed one after the other that a run was stopped: what happened, and what to do."""

    def __init__(self, what: str, advice: str):
        self.what, self.advice = what, advice
        super().__init__(what, advice)

    def __str__(self) -> str:
        return f"{self.what}\n{self.advice}"


class FarReturnWarning(UserWarning):
    """A return that was told is far outside all others. It was taken, and can be corrected."""
