"""The letters of all array shapes, and their types.

N rollouts, S context numbers, D parameter numbers, F features, O options, C contexts asked about,
Z = S + D numbers of a joint point. Shapes are written with jaxtyping where it is installed (tests check them
at run time); without it the annotations mean nothing and cost nothing. Nor do they load JAX: where it is not loaded
yet, an array is any.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Int
else:
    if "jax" in sys.modules:
        from jax import Array
    else:
        Array = Any
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _AnyShape:
            def __class_getitem__(cls, item: Any) -> Any:
                return Any

        Bool = Float = Int = _AnyShape

__all__ = ["Array", "Bool", "Float", "Int"]
