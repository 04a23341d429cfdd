"""Where an expectation maximisation starts: weighted k-means++ seeds, each point given to its nearest one."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Float, Int


def start_sizes(restarts: int, max_components: int) -> tuple[int, ...]:
    """How many options each restart begins with: 4, O_max, 2, 8, 3, 6 (none above O_max), and again."""
    cycle = [4, max_components, 2, 8, 3, 6]
    cycle = [size for index, size in enumerate(cycle) if size < max_components or index == 1]
    return tuple(cycle[index % len(cycle)] for index in range(restarts))


def pick(uniform: Float[Array, ""], shares: Float[Array, " N"]) -> Int[Array, ""]:
    """The index at which the cumulative share passes `uniform` (in [0, 1)) of the whole.

    One number decides, so points without a share, wherever they stand, change nothing, and a share of 2 is
    the same as two points that stand together.
    """
    cumulative = jnp.cumsum(shares)
    target = uniform * cumulative[-1] * (1 - 1e-12)
    return jnp.minimum(jnp.sum(cumulative <= target), shares.shape[0] - 1)


def seed_responsibilities(
    uniforms: Float[Array, " O"], x: Float[Array, "N Z"], weights: Float[Array, " N"], size: Int[Array, ""]
) -> Float[Array, "O N"]:
    """Each point wholly with the nearest of `size` <= O seeds, drawn by k-means++ with sample weights.

    The first seed is drawn with probability w_i, the next with w_i d_i^2, d_i the distance to the nearest.
    """

    def draw(nearest: Float[Array, " N"], uniform: Float[Array, ""]) -> tuple[Array, Array]:
        shares = weights * nearest
        shares = jnp.where(jnp.any(shares > 0), shares, weights)
        distance = jnp.sum((x - x[pick(uniform, shares)][None]) ** 2, axis=1)
        return jnp.minimum(nearest, distance), distance

    # the first seed sees the same "distance" everywhere; its own distances replace that
    first = jnp.full_like(weights, jnp.finfo(x.dtype).max ** 0.25)
    _, distances = jax.lax.scan(draw, first, uniforms)
    options = jnp.arange(uniforms.shape[0])[:, None]
    owner = jnp.argmin(jnp.where(options < size, distances, jnp.inf), axis=0)
    return (options == owner[None]).astype(x.dtype)
