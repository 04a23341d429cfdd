"""Strict settings for all tests: 64 bit, no silent broadcasting, shapes checked at run time."""

import os

# Before numpy, scipy or jax are imported: they read these once.
for name, value in {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}.items():
    os.environ.setdefault(name, value)

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Every function of hpsde checks its arguments and results against its annotations, shapes included. As for
# mypy, an int will do where a float is wanted.
install_import_hook("hpsde", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
