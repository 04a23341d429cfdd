"""Encoders: from a context as it is, such as a picture, to the few numbers z that everything else is learned on.

Model of the return, density, options, gate and features see z alone; rollouts are stored with contexts as they are. An
encoder is fixed before the first rollout. What one context gives must not depend on others that are encoded with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np

from hpsde.base.archive import WHOLE_NUMBERS, Field
from hpsde.base.checks import as_numbers, check_count, check_shaped, usable_numbers
from hpsde.base.draws import fold_in, make_key, with_key
from hpsde.errors import HpsdeError, InputError

__all__ = ["Encoder", "Flat", "OwnEncoder", "context_shape", "make_encoder"]

LARGEST_SHAPE = 10**7  # numbers in a context
PROBES = 2
STREAM = 1_000_033  # of random numbers that draw contexts without a rollout


class Encoder(ABC):
    """From contexts of one shape to z [N, Z].

    kind: its name in files. fields: its arrays there, in the letters of policy/fields.py.
    """

    kind: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]] = {"shape": Field("A", WHOLE_NUMBERS)}

    shape: tuple[int, ...]
    size: int

    def rows(self, name: str, contexts: Any, count: int | None = None) -> np.ndarray:
        """Contexts [N, *shape], or [N, S] with all numbers of one in a row, as such rows, checked."""
        rows = check_shaped(name, contexts, self.shape, count)
        self.check(name, rows)
        return rows

    def check(self, name: str, rows: np.ndarray) -> None:  # noqa: B027 - not all have something to say
        """An InputError where contexts [N, S] are none that it is for."""

    @abstractmethod
    def encode(self, rows: np.ndarray) -> np.ndarray:
        """z [N, Z] of checked contexts [N, S]."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file holds of it."""
        return {"shape": np.array(self.shape, dtype=np.int64)}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Encoder:
        """The encoder of a file's arrays; a ValueError where they do not fit together."""
        raise NotImplementedError


class Flat(Encoder):
    """All numbers of a context, one after the other."""

    kind = "flat"

    def __init__(self, shape: Any):
        self.shape = context_shape(shape)
        self.size = prod(self.shape)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The rows themselves."""
        return rows

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Flat:
        """The encoder of a file's arrays."""
        return cls(tuple(arrays["shape"].tolist()))


class OwnEncoder(Encoder):
    """A function of the user's own, contexts [N, *shape] -> z [N, Z].

    To know Z, where no `size` says it, it is tried on `some` contexts, or on two of random numbers from 0 to 1.
    """

    kind = "own"

    def __init__(
        self,
        function: Any,
        shape: Any,
        some: np.ndarray | None = None,
        size: int | None = None,
    ):
        if not callable(function):
            raise InputError(f"encoder must be a function [N, ...] -> [N, Z]; got {function!r:.80}")
        self.function, self.shape = function, context_shape(shape)
        if size is not None:
            self.size = size
            return
        probes = np.random.default_rng(0).random((PROBES, prod(self.shape))) if some is None else some
        self.size = -1
        self.size = self.encode(probes).shape[1]

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """What the function gives for a copy, checked."""
        if not len(rows) and self.size >= 0:
            return np.zeros((0, self.size))
        try:
            given = self.function(rows.reshape(len(rows), *self.shape).copy())
        except HpsdeError:
            raise
        except Exception as error:
            raise InputError(f"the encoder failed on {len(rows)} contexts: {type(error).__name__}: {error}") from error
        z = as_numbers("what the encoder gives", given)
        if z.ndim != 2 or len(z) != len(rows) or not z.shape[1] or self.size not in (-1, z.shape[1]):
            wanted = f"[{len(rows)}, {'Z' if self.size < 0 else self.size}]"
            raise InputError(
                f"the encoder must give shape {wanted} for contexts {[len(rows), *self.shape]}; got {list(z.shape)}"
            )
        bad = np.flatnonzero(~usable_numbers(z).all(axis=1))
        if len(bad):
            raise InputError(f"the encoder must give finite numbers; row {bad[0]} is {z[bad[0]].tolist()!s:.80}")
        return z


def context_shape(shape: Any) -> tuple[int, ...]:
    """The shape of one context, from a whole number or several of them."""
    sizes = tuple(shape) if isinstance(shape, tuple | list | np.ndarray) else (shape,)
    least = 0 if len(sizes) == 1 else 1
    checked = tuple(check_count("context_size", size, least) for size in sizes)
    if not checked or prod(checked) > LARGEST_SHAPE:
        raise InputError(f"context_size must be a number of numbers, or a shape of at most {LARGEST_SHAPE} numbers")
    return checked


def make_encoder(encoder: Any, shape: tuple[int, ...]) -> Encoder | None:
    """The encoder for contexts of this shape; None where they are a few numbers already."""
    if encoder is None:
        return Flat(shape) if len(shape) > 1 else None
    if isinstance(encoder, Encoder):
        if encoder.shape != shape and (len(shape) > 1 or prod(encoder.shape) != prod(shape)):
            raise InputError(f"the encoder is for contexts of shape {list(encoder.shape)}; got {list(shape)}")
        return encoder
    if not prod(shape):
        raise InputError("an encoder needs contexts; there are none")
    if callable(encoder):
        return OwnEncoder(encoder, shape)
    raise InputError(
        f"encoder must be a function [N, ...] -> [N, Z] or an hpsde.PictureEncoder; got {encoder!r:.80}"
        + (". By its name it is made where a task gives it pictures: hpsde.learn" if isinstance(encoder, str) else "")
    )


def contexts_of(task: Any, seed: int, count: int) -> np.ndarray:
    """Contexts [count, *shape] of the task, which are of no rollout."""
    shape = getattr(task, "context_shape", None) or (task.context_size,)
    if not prod(shape):
        raise InputError("an encoder needs contexts; the task has none")
    drawn = with_key(task.sample_contexts, fold_in(make_key(seed), STREAM), count)
    return check_shaped("the task's contexts", drawn, tuple(shape)).reshape(count, *shape)


def of_function(encoder: Any, task: Any, seed: int) -> Any:
    """An encoder for the task's contexts, where it is a function; else what it is."""
    if task is None or isinstance(encoder, Encoder) or not callable(encoder):
        return encoder
    some = contexts_of(task, seed, PROBES)
    return OwnEncoder(encoder, some.shape[1:], some.reshape(PROBES, -1))
