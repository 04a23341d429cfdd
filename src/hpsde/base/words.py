"""Distributions as text, such as "uniform([0, 0], [1, 2])", and back. Reading such text never runs anything.

The arguments are numbers and lists of numbers, nothing else: the text is cut into numbers, brackets and
commas, and what is none of these is refused before a parser sees it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from hpsde.base.distributions import Distribution, Gaussian, Samples, Uniform
from hpsde.errors import InputError

__all__ = ["distribution_text", "parse_distribution"]

LONGEST_TEXT = 4 * 2**20

_KINDS = {"uniform": (Uniform, "low, high"), "gaussian": (Gaussian, "mean, spread"), "samples": (Samples, "rows")}
_EXAMPLES = 'such as "uniform(0, 2)", "uniform([0, 0], [1, 2])", "gaussian(0, 1)" or "samples([[1], [2]])"'
_CALL = re.compile(r"\s*([A-Za-z]+)\s*\((.*)\)\s*", re.DOTALL)
_TOKEN = re.compile(r"\s*(?:([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|([\[\](),]))")
_BRACKETS = {"(": "[", ")": "]"}


def parse_distribution(text: str, name: str) -> Distribution:
    """The distribution that `text` describes: uniform(low, high), gaussian(mean, spread) or samples(rows).

    Arguments are numbers or lists of them, as in `hpsde.Uniform`, `hpsde.Gaussian` and `hpsde.Samples`.
    `name` is what to call the text in an error.
    """
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{name}: expected at most {LONGEST_TEXT} characters, got {len(text)}")
    call = _CALL.fullmatch(text)
    if call is None or call[1].lower() not in _KINDS:
        raise InputError(f"{name}: expected a distribution {_EXAMPLES}; got {shortened(text)}")
    kind, wanted = _KINDS[call[1].lower()]
    arguments = _arguments(call[2], name)
    if len(arguments) != len(wanted.split(", ")):
        raise InputError(f"{name}: expected {call[1]}({wanted}), got {len(arguments)} arguments: {shortened(text)}")
    try:
        return kind(*arguments)
    except (InputError, ValueError) as error:
        raise InputError(f"{name}: {error}") from None


def distribution_text(distribution: Any) -> str:
    """The text that `parse_distribution` reads as an equal distribution, to the last bit."""
    if isinstance(distribution, Uniform):
        return f"uniform({_numbers(distribution.low)}, {_numbers(distribution.high)})"
    if isinstance(distribution, Gaussian):
        return f"gaussian({_numbers(distribution.mean)}, {_numbers(distribution.spread)})"
    if isinstance(distribution, Samples):
        return f"samples({json.dumps(distribution.values.tolist())})"
    raise InputError(
        "a distribution that is to be written down must be one of hpsde.Uniform, hpsde.Gaussian and hpsde.Samples; "
        f"got {type(distribution).__name__}"
    )


def shortened(value: Any, length: int = 80) -> str:
    """`value` as an error message shows it."""
    text = repr(value[: 2 * length] if isinstance(value, str) else value)
    return text if len(text) <= length else f"{text[:length]}..."


def _numbers(values: Any) -> str:
    """A vector of one number as that number, others and matrices as lists. json writes floats as repr does."""
    scalar = len(values) == 1 and isinstance(values[0], float)
    return json.dumps(values[0] if scalar else values)


def _arguments(text: str, name: str) -> list[Any]:
    """The arguments as numbers and nested lists of numbers: "0, [1, 2]" as [0.0, [1.0, 2.0]]."""
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise InputError(
                f"{name}: expected numbers and lists of numbers as arguments; got {shortened(text[position:])}"
            )
        tokens.append(_number(token[1], name) if token[1] else _BRACKETS.get(token[2], token[2]))
        position = token.end()
    try:
        arguments = json.loads(f"[{' '.join(tokens)}]")
    except (ValueError, RecursionError):
        raise InputError(
            f"{name}: the numbers, commas and brackets do not fit together; got {shortened(text)}"
        ) from None
    return arguments


def _number(text: str, name: str) -> str:
    number = float(text)
    if not math.isfinite(number):
        raise InputError(f"{name}: {shortened(text)} is too large for a number")
    return repr(number)
