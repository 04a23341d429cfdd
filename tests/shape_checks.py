"""Functions of hpsde check their arguments and results against their annotations, shapes included."""

import functools
from collections import Counter

import jaxtyping

INNER = 3
"""How often a function that is defined within another is checked: each definition costs as much as many calls."""
FIRST, THEN = 10, 100
"""In every file of tests the first calls of a function are checked, and then one in so many: a check costs about a
tenth of a millisecond, and what is called ten thousand times is called with the same few shapes.
"""

_jaxtyped = jaxtyping.jaxtyped
_defined: Counter = Counter()
_calls: list = []  # of every function a list with one number, so that counting costs next to nothing


def install() -> None:
    """For all of hpsde that is imported from now on. As for mypy, an int will do where a float is wanted."""
    jaxtyping.jaxtyped = _checked  # what the hook decorates with
    hook = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    jaxtyping.install_import_hook("hpsde", hook)


def begin() -> None:
    """The calls from now on are the first of every function."""
    for calls in _calls:
        calls[0] = 0


def _checked(*, typechecker):
    def decorated(function):
        code = getattr(function, "__code__", None)
        if code is None:
            return _jaxtyped(function, typechecker=typechecker)
        if "<locals>" in function.__qualname__:
            _defined[code] += 1
            if _defined[code] > INNER:
                return function
            checked = _jaxtyped(function, typechecker=typechecker)  # names of its annotations may be local ones
            return _at_times(function, lambda: checked)
        return _at_times(function, functools.cache(lambda: _jaxtyped(function, typechecker=typechecker)))

    return decorated


def _at_times(function, make_checked):
    """Checked at the first calls and at some of the others. The check is made when it is first needed: of thousands of
    functions a process calls some hundred.
    """
    calls = [0]
    _calls.append(calls)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        calls[0] = number = calls[0] + 1
        return (make_checked() if number <= FIRST or number % THEN == 0 else function)(*args, **kwargs)

    return wrapped
