"""The letters of all array shapes, and their types.

N rollouts, S context numbers, D parameter numbers, F features, O options, C contexts asked about,
Z = S + D numbers of a joint point. Shapes are written with jaxtyping where it is loaded (tests check them at run
time); without it the annotations mean nothing and cost nothing. An array is numpy's or JAX's. Annotations do not load
JAX: where it is not loaded yet, an array is any.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    Array = Any  # for mypy, which would ask in every formula which of the two it is
else:
    if "jax" in sys.modules:
        import numpy as np
        from jax import Array

        Array = Array | np.ndarray
    else:
        Array = Any
    if "jaxtyping" in sys.modules:
        from jaxtyping import Bool, Float, Int
    else:

        class _AnyShape:
            def __class_getitem__(cls, item: Any) -> Any:
                return Any

        Bool = Float = Int = _AnyShape

__all__ = ["Array", "Bool", "Float", "Int"]
