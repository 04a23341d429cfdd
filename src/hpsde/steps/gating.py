"""The Gaussian process as gate pi(o | s) (paper, "Selection of the Option Policy").

It says how good each option is in each context [O, C], for learning (optimistic) and for use (greedy).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpsde import gp
from hpsde.base.groups import setting
from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.gp import binary as gp_binary
from hpsde.gp.kernel import kernel_of
from hpsde.gp.warp import Warp
from hpsde.steps import gaussian
from hpsde.steps.gate import Gate, Optimism, draw_by_share
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface


class GPGate(NamedTuple):
    """Expected return of each option by a Gaussian process over z = [xi, s]."""

    process: gp.GP
    scores: Float[Array, " N"]  # warped returns at the process's points, kept so that a saved gate can be rebuilt
    warp: Warp
    axes: Float[Array, "E Z"] | None = None  # A, where the process is over A z; None: over z itself (gp/axes.py)
    cautious: bool = True  # in use: the return of an option's mean parameters less its deviation; or the expected one
    binary: bool = False  # the process is one of success (score 1) or failure (0), and its values are log odds
    sparse: bool = False  # its points are some of its rollouts (gp/sparse.py), and K_inverse does not follow from them

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "gp"

    def values(
        self,
        options: LinearGaussian,
        kept: Bool[Array, " O"],
        features: Float[Array, "C F"],
        contexts: Float[Array, "C S"],
        optimism: Optimism | None = None,
    ) -> Float[Array, "O C"]:
        """While learning mean + kappa deviation of the return (UCB); in use the cautious or the expected returns."""
        asked = (self.process, options, kept, features, contexts, self.axes)
        if optimism is not None and optimism.draws:
            mean, deviation = drawn_moments(*asked, draws=optimism.draws)
            return mean + optimism.kappa * deviation
        if optimism is not None:
            mean, deviation = gp_moments(*asked, of_return=optimism.of_return)
            return mean + optimism.kappa * deviation
        if not self.cautious:
            return gp_means(*asked)
        mean, deviation = returns_in_use(self, options, kept, features, contexts)
        return mean - deviation


@dataclass(frozen=True)
class GaussianProcess(Gate, name="gp"):
    """The Gaussian process that models the return says what to expect of every option, and how surely."""

    trained = GPGate
    needs_surface = True

    kappa: float = setting(
        1.0, "Optimism while learning: mean + kappa standard deviations.", low=0.0, high=1e3, common=True
    )
    deviation: str = setting(
        "mean",
        "That standard deviation: of an option's mean return, how little it is known, or of its return, which also "
        "varies as the option explores (the paper's).",
        choices=("mean", "return"),
    )
    greedy: str = setting(
        "cautious",
        "What is taken in use: the option whose mean parameters have the best return, no better one than a rollout has "
        "had, less one standard deviation, or the option of the best expected return (the paper's).",
        choices=("cautious", "expected"),
    )
    exploration_temperature: float = setting(
        4.0,
        "c: options are drawn by exp(optimistic return / (c T)), with the T of f; at 1 as the optimal policy would, "
        "above it more evenly; at 0 the best is taken (the paper's).",
        low=0.0,
        high=1e6,
    )

    def train(self, data: Data, weighted: np.ndarray, surface: Surface | None) -> GPGate:
        """The process itself."""
        if surface is None:
            raise RuntimeError("there is no process")
        known = surface.process, surface.scores, surface.warp, surface.axes
        return GPGate(*known, self.greedy == "cautious", surface.binary, surface.sparse is not None)

    @property
    def optimism(self) -> Optimism:
        """Upper confidence bounds."""
        return Optimism(self.kappa, self.deviation == "return")

    def choose(self, key: Array, gate: GPGate, values: np.ndarray, temperature: float) -> Int[np.ndarray, " C"]:
        """By the optimal policy's own form, exp(R_o / (c T)), at the optimistic returns: equally good options are all
        tried.
        """
        if self.exploration_temperature * temperature == 0.0:
            return np.argmax(np.asarray(values), axis=0)
        return draw_by_share(key, gate.warp.inverse(np.asarray(values)) / (self.exploration_temperature * temperature))

    @classmethod
    def arrays(cls, gate: GPGate) -> dict[str, Any]:
        """Its points and what follows from them, but for the inverse where that does."""
        process, kernel = gate.process, gate.process.hyperparameters
        return kernel._asdict() | {
            **{name: getattr(process, name) for name in ("z", "mask", "beta", "centre", "mean")},
            "axes": np.eye(process.z.shape[1]) if gate.axes is None else gate.axes,
            "cautious": gate.cautious,
            "binary": gate.binary,
            "kernel_tau": np.array(kernel.kernel.tau),
            "kernel_w": np.array(kernel.kernel.w),
            "known": process.K_inverse if gate.sparse else np.zeros((0, 0)),
            "scores": gate.scores,
            "warp_returns": gate.warp.returns,
            "warp_scores": gate.warp.scores,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> GPGate:
        """With the inverse, which is computed again unless it was stored."""
        inverse, mask = arrays.get("known", np.zeros((0, 0))), arrays["mask"]
        if inverse.size:
            inverse = np.where(mask[:, None] & mask[None], inverse, 0.0)
        kernel = gp.hyperparameters_of(kernel_of(arrays["kernel_tau"], arrays["kernel_w"]))
        hyperparameters = kernel(*(arrays[name] for name in kernel._fields))
        axes = arrays.get("axes")
        if axes is not None and np.array_equal(axes, np.eye(len(axes))):
            axes = None
        warp = Warp(arrays["warp_returns"], arrays["warp_scores"])
        flags = bool(arrays["cautious"]), bool(arrays["binary"]), inverse.size > 0
        given = arrays["z"], mask, arrays["beta"], inverse, arrays["mean"], arrays["centre"]
        process = gp.GP(hyperparameters, *given)
        if not inverse.size:
            process = (gp_binary.with_inverse if flags[1] else gp.with_inverse)(process, arrays["scores"])
        return GPGate(process, arrays["scores"], warp, axes, *flags)


def _option_moments(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None,
    of_return: bool,
    of_mean: bool,
) -> gp.OptionMoments:
    """Moments of the process's mean under every option. A z is Gaussian, too, with covariance A_xi Sigma A_xi'."""
    means, asked = gaussian.means(options, features), {"of_return": of_return, "of_mean": of_mean}
    if axes is None:
        return gp.option_moments(process, means, options.Sigma, contexts, kept, **asked)
    of_parameters = axes[:, : means.shape[-1]]
    covariance = of_parameters[None] @ options.Sigma @ of_parameters.T[None]
    nothing = np.zeros((contexts.shape[0], 0), contexts.dtype)
    return gp.option_moments(process, _joint(means, contexts) @ axes.T, covariance, nothing, kept, **asked)


def _joint(parameters: Float[Array, "*O C D"], contexts: Float[Array, "C S"]) -> Float[Array, "*O C Z"]:
    """Points z = [xi, s]."""
    repeated = np.broadcast_to(contexts, (*parameters.shape[:-1], contexts.shape[1]))
    return np.concatenate([parameters, repeated], axis=-1)


def gp_moments(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
    *,
    of_return: bool = True,
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """Mean and deviation of the return of every kept option in every context, in warped units (Girard 2002).

    The deviation is that of the mean return, for what is not known of it, or with `of_return` that of the return.
    """
    moments = _option_moments(process, options, kept, features, contexts, axes, of_return, not of_return)
    return moments.mean, np.sqrt(moments.variance if of_return else moments.variance_of_mean)


def drawn_moments(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
    *,
    draws: int,
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """As `gp_moments` of the return, estimated from draws of every option in every context.

    They follow from the number of the process's points: others in every learning step.
    """
    rng = np.random.default_rng(int(np.sum(np.asarray(process.mask))))
    mu, C = gaussian.means(options, features), np.linalg.cholesky(options.Sigma)
    noise = rng.normal(size=(draws, *mu.shape))
    z = _joint(mu[None] + np.einsum("ode,koce->kocd", C, noise), contexts)
    z = z if axes is None else z @ axes.T
    mean, variance = (each.reshape(z.shape[:-1]) for each in gp.predict(process, z.reshape(-1, z.shape[-1])))
    return np.mean(mean, axis=0), np.sqrt(np.mean(variance, axis=0) + np.var(mean, axis=0))


def gp_means(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
) -> Float[Array, "O C"]:
    """The mean alone, which costs N instead of the variance's N^2 per option and context."""
    return _option_moments(process, options, kept, features, contexts, axes, False, False).mean


def returns_of_means(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """Mean and deviation, by what is known, of the return of every kept option's mean parameters, in warped units; NaN
    for the others.
    """
    points = _joint(gaussian.means(options, features)[kept], contexts)
    points = points if axes is None else points @ axes.T
    mean, deviation = (np.full((len(kept), len(contexts)), np.nan) for _ in range(2))
    for o, at in zip(np.flatnonzero(kept), points, strict=True):
        mean[o], variance = gp.predict(process, at)
        deviation[o] = np.sqrt(variance)
    return mean, deviation


def returns_in_use(
    gate: GPGate,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """As `returns_of_means`, but no more than the best rollout has had: beside its points a process overshoots.

    Log odds of success have no such limit.
    """
    mean, deviation = returns_of_means(gate.process, options, kept, features, contexts, gate.axes)
    if gate.binary:
        return mean, deviation
    return np.minimum(mean, np.max(gate.scores[gate.process.mask])), deviation
