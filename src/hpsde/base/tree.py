"""Trees of tuples, named tuples, dataclasses and arrays as a JSON outline with arrays beside it, and back to the bit.

Arrays come back as numpy's.

Only classes from a given list are made on the way back, and only from plain values: nothing in a file runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from hpsde.base.arrays import is_jax

Classes = Mapping[str, type]


def flatten(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The outline of `value` in JSON's own types; arrays are put into `arrays` under names of their own."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) or is_jax(value):
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"numpy": name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [flatten(item, arrays) for item in value]
    if type(value) is tuple:
        return {"tuple": [flatten(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"pairs": [[key, flatten(item, arrays)] for key, item in value.items()]}
    names = _field_names(type(value))
    return {"class": type(value).__name__, "fields": {name: flatten(getattr(value, name), arrays) for name in names}}


def build(outline: Any, arrays: Mapping[str, np.ndarray], classes: Classes) -> Any:
    """What was flattened; ValueError where the outline is not one that `flatten` makes."""
    if outline is None or isinstance(outline, bool | int | float | str):
        return outline
    if isinstance(outline, list):
        return [build(item, arrays, classes) for item in outline]
    kind = next(iter(outline), None) if isinstance(outline, dict) else None
    if kind == "numpy" and len(outline) == 1 and outline[kind] in arrays:
        return arrays[outline[kind]]
    if kind == "tuple" and len(outline) == 1 and isinstance(outline[kind], list):
        return tuple(build(item, arrays, classes) for item in outline[kind])
    if kind == "pairs" and len(outline) == 1:
        return {key: build(item, arrays, classes) for key, item in outline["pairs"]}
    if kind != "class" or outline["class"] not in classes:
        raise ValueError(f"an unknown kind of entry, {str(outline)[:80]}")
    made, fields = classes[outline["class"]], outline["fields"]
    if list(fields) != _field_names(made):
        raise ValueError(f"{outline['class']} with the fields {', '.join(fields)}")
    return made(**{name: build(item, arrays, classes) for name, item in fields.items()})


def _field_names(kind: type) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    names = getattr(kind, "_fields", None)
    if names is None:
        raise TypeError(f"{kind.__name__} is neither a dataclass nor a named tuple, and cannot be stored")
    return list(names)
