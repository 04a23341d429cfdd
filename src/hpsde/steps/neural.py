"""Options whose means add a small network to the part that is linear in the features.

    mu_o(s) = b_o + w_o' phi(s) + A_o' x_o(phi(s)),   x_o the last layer of a network of tanh (network.py)

With an option's sample weights d_i (of REPS or RWR, which bound how far it moves) the network minimises, by Adam,

    1/2 ess sum_i d_i |r_i|^2 + 1/2 decay sum W^2,    r = (I - P)(xi - h(phi)) / scale,

P the ridge regression on [1, phi]: b and w are optimal for every h. `scale` is what the regression alone leaves of each
parameter. Every LEFT_OUT-th sample is left out, and the decay is that of DECAYS which predicts these best. Where
no network does so clearly better than the regression alone, h = 0: the option is linear in the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hpsde.base.archive import Field
from hpsde.base.groups import setting
from hpsde.base.later import Later
from hpsde.base.precision import single
from hpsde.base.shapes import Array, Float
from hpsde.steps.network import NEURAL, SHAPES, Network
from hpsde.steps.option_policies import OptionPolicies

jax, jnp, jax_linalg = Later("jax"), Later("jax.numpy"), Later("jax.scipy.linalg")

DECAYS = (1.0, 0.1, 0.01)
LEFT_OUT = 4
STEPS, RATE = 300, 0.02  # of Adam; the first step, which shrink to nothing
MOMENTUM, SCALE = 0.9, 0.99  # Adam's beta_1 and beta_2
MOST = 1024  # samples that it is fitted to: those with the largest weights
RIDGE = 1e-3  # of P, in samples
GAIN = 1.5  # standard deviation of what the first layer gets, at the start
CLEARLY = 2.0  # standard errors by which a network must be better


@dataclass(frozen=True)
class Neural(OptionPolicies, name=NEURAL):
    """Means add a small network to that."""

    trained: ClassVar[Any] = Network
    shapes: ClassVar[Mapping[str, str | Field]] = SHAPES
    warm: ClassVar[bool] = True

    width: int = setting(32, "Units in each layer of an option's network.", low=1, high=1024)
    depth: int = setting(2, "Layers of an option's network.", low=1, high=16)

    @property
    def form(self) -> tuple[Any, ...]:
        """Its name and sizes."""
        return self.name, self.width, self.depth

    def more(self, features: int) -> int:
        """The last layer's weights."""
        return self.width if features else 0

    def fit(
        self,
        features: Float[Array, "N F"],
        parameters: Float[Array, "N D"],
        weights: Float[Array, " N"],
        start: Network | None = None,
    ) -> Network:
        """The network of one option; `start` is that of the last learning step."""
        if not features.shape[1]:  # without a context nothing bends
            empty = _start(jnp.zeros((1, 0)), jnp.ones(1), self.width, self.depth, parameters.shape[1])
            return jax.tree.map(lambda part: jnp.zeros(part.shape, features.dtype), empty)
        return _fit(self.width, self.depth, features, parameters, weights, start)


def _fit(width: int, depth: int, features: Array, parameters: Array, weights: Array, start: Network | None) -> Network:
    d, rows = jax.lax.top_k(weights, min(MOST, len(weights)))
    # One unit for all features: how much each matters beside the others is theirs to say.
    centre = d @ features[rows] / jnp.sum(d)
    deviation = jnp.sqrt(jnp.maximum(d @ (features[rows] - centre[None]) ** 2 / jnp.sum(d), 0.0))
    unit = jnp.where(jnp.max(deviation) > 0.0, jnp.max(deviation), 1.0)
    phi, d = (features[rows] - centre[None]) / unit, d / jnp.sum(d)
    # What the regression explains goes first: in single precision little else would be left of a narrow option.
    left = _regressed(phi, parameters[rows], d)
    scale = jnp.sqrt(jnp.maximum(d @ left**2, 1e-24))
    phi, y, d = single((phi, left / scale[None], d))
    left_out = jnp.arange(len(d)) % LEFT_OUT == 0
    some, others = jnp.where(left_out, 0.0, d), jnp.where(left_out, d, 0.0)
    fresh = _start(phi, d, width, depth, y.shape[1])
    decays = jnp.asarray(DECAYS, jnp.float32)
    nets = jax.lax.map(lambda decay: _trained(fresh, phi, y, some, decay), decays)
    errors = jax.lax.map(lambda net: jnp.sum(_residuals(net, phi, y, some) ** 2, axis=1), nets)
    best = jnp.argmin(errors @ others)
    plain = jnp.sum(_regressed(phi, y, some) ** 2, axis=1)
    share = others / jnp.maximum(jnp.sum(others), 1e-30)
    gain = share @ (plain - errors[best])
    doubt = jnp.sqrt(jnp.sum(share**2 * (plain - errors[best] - gain) ** 2))

    def train(_: None) -> Network:
        begin = jax.tree.map(lambda part: part[best], nets)
        if start is not None:
            last = single(_in_units(start, centre, unit, scale))
            better = _loss(last, phi, y, d, decays[best]) < _loss(begin, phi, y, d, decays[best])
            begin = jax.tree.map(lambda a, b: jnp.where(better, a, b), last, begin)
        return _trained(begin, phi, y, d, decays[best])

    found = jax.lax.cond(gain > CLEARLY * doubt, train, lambda _: jax.tree.map(jnp.zeros_like, fresh), None)
    found = jax.tree.map(lambda part: part.astype(features.dtype), found)
    W = found.W / unit
    return found._replace(W=W, c=found.c - centre @ W, A=found.A * scale[None])


def _in_units(net: Network, centre: Array, unit: Array, scale: Array) -> Network:
    """A network of the features as they are, as one of those in units."""
    return net._replace(W=net.W * unit, c=net.c + centre @ net.W, A=net.A / scale[None])


def _start(phi: Array, d: Array, width: int, depth: int, size: int) -> Network:
    """Random weights, the same in every learning step."""
    keys = jax.random.split(jax.random.key(0), 5)

    def normal(key: Array, *shape: int) -> Array:
        return jax.random.normal(key, shape, jnp.float32)

    spread = jnp.sqrt(jnp.maximum(jnp.sum(d @ phi**2), 1e-12))
    return Network(
        W=normal(keys[0], phi.shape[1], width) * GAIN / spread,
        c=normal(keys[1], width),
        inner=normal(keys[2], depth - 1, width, width) / jnp.sqrt(float(width)).astype(jnp.float32),
        inner_c=jnp.zeros((depth - 1, width), jnp.float32),
        A=0.1 * normal(keys[4], width, size) / jnp.sqrt(float(width)).astype(jnp.float32),
    )


def _regressed(phi: Array, y: Array, d: Array) -> Array:
    """What a ridge regression on [1, phi] with weights d [N], fitted to the samples, leaves of y [N, D]."""
    total = jnp.maximum(jnp.sum(d), 1e-30)
    effective = total**2 / jnp.maximum(jnp.sum(d**2), 1e-30)
    d = d / total
    middle, at = d @ phi, d @ y
    centred, left = phi - middle[None], y - at[None]
    gram = effective * (centred.T * d[None]) @ centred + RIDGE * jnp.eye(phi.shape[1], dtype=phi.dtype)
    return left - centred @ jax_linalg.solve(gram, effective * (centred.T * d[None]) @ left, assume_a="pos")


def _residuals(net: Network, phi: Array, y: Array, d: Array) -> Array:
    return _regressed(phi, y - net.mean(phi, jnp), d)


def _loss(net: Network, phi: Array, y: Array, d: Array, decay: Array) -> Array:
    effective = jnp.sum(d) ** 2 / jnp.maximum(jnp.sum(d**2), 1e-30)
    misfit = effective * jnp.sum((d / jnp.sum(d)) @ _residuals(net, phi, y, d) ** 2)
    return 0.5 * (misfit + decay * sum(jnp.sum(each**2) for each in (net.W, net.inner, net.A)))


def _trained(net: Network, phi: Array, y: Array, d: Array, decay: Array) -> Network:
    """Adam with steps that shrink to nothing."""
    gradient = jax.grad(_loss)

    def step(t: Any, state: tuple[Network, Network, Network]) -> tuple[Network, Network, Network]:
        x, first, second = state
        g = gradient(x, phi, y, d, decay)
        first = jax.tree.map(lambda m, each: MOMENTUM * m + (1.0 - MOMENTUM) * each, first, g)
        second = jax.tree.map(lambda v, each: SCALE * v + (1.0 - SCALE) * each**2, second, g)
        rate = RATE * (1.0 - t / STEPS)

        def moved(part: Array, m: Array, v: Array) -> Array:
            m, v = m / (1.0 - MOMENTUM ** (t + 1.0)), v / (1.0 - SCALE ** (t + 1.0))
            return (part - rate * m / (jnp.sqrt(v) + 1e-8)).astype(jnp.float32)

        return jax.tree.map(moved, x, first, second), first, second

    nothing = jax.tree.map(jnp.zeros_like, net)
    return jax.lax.fori_loop(0, STEPS, step, (net, nothing, nothing))[0]
