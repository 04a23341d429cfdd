"""Every function of hpsde checks its arguments and results against its annotations, shapes included."""

from collections import Counter

import jaxtyping

INNER = 3
"""How often a function that is defined within another is checked: each definition costs as much as many calls."""

_jaxtyped = jaxtyping.jaxtyped
_defined: Counter = Counter()


def install() -> None:
    """For all of hpsde that is imported from now on. As for mypy, an int will do where a float is wanted."""
    jaxtyping.jaxtyped = _checked  # what the hook decorates with
    hook = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    jaxtyping.install_import_hook("hpsde", hook)


def _checked(*, typechecker):
    def decorated(function):
        if "<locals>" in getattr(function, "__qualname__", "") and hasattr(function, "__code__"):
            _defined[function.__code__] += 1
            if _defined[function.__code__] > INNER:
                return function
        return _jaxtyped(function, typechecker=typechecker)

    return decorated
