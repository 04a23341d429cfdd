"""HiREPS, hierarchical relative entropy policy search (Daniel, Neumann, Kroemer and Peters, JMLR 2016).

The baseline that the paper compares with. It starts with many wide options, and each update

    E-step   p~_io = pi(o | s_i) pi(xi_i | s_i, o) / sum_o' (the same), by the old policy,
    dual     p_io, the weights of highest return within the bounds of hireps_dual.py,
    M-step   every option by weighted regression on p_io, the softmax gate by weighted softmax regression,

leaves out the options with too little weight. docs/hireps.md says what the literature leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import numpy as np

from hpsde.base.arrays import map_arrays
from hpsde.base.draws import split
from hpsde.base.groups import setting
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.shapes import Array
from hpsde.errors import InputError
from hpsde.learners import hireps_dual
from hpsde.learners.ask_tell import Learner, Proposal
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.settings import MethodSettings
from hpsde.steps import gaussian
from hpsde.steps.features import ContextFeatures, spread_points
from hpsde.steps.gate import draw_by_share
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import fit_units
from hpsde.steps.softmax import SoftmaxGate, fit_softmax, softmax_log_probabilities

LLOYD_STEPS = 20
LOWEST_LOG = -700.0  # of a responsibility; below it exp is 0


@dataclass(frozen=True, init=False)
class HiREPSSettings(MethodSettings):
    """How HiREPS learns. docs/hireps.md says how the defaults were chosen, and what serves which task best."""

    max_options: int = setting(
        20, "Options at the start. They only ever become fewer.", low=1, high=10_000, common=True
    )
    min_options: int = setting(1, "Options that are never left out.", low=1)
    features: ContextFeatures = setting(
        ContextFeatures("linear", trend=False),
        "What of the context options and gate depend on; automatic means linear here.",
    )
    epsilon: float = setting(
        1.0,
        "Bound on the KL divergence of the new weights from the rollouts, in nats.",
        low=1e-6,
        high=1e3,
        common=True,
    )
    kappa_share: float = setting(
        0.9,
        "Bound on the overlap of the options, as a share of what it was before the update.",
        low=0.0,
        high=1e3,
        common=True,
    )
    window: int | None = setting(
        None,
        "How many of the newest rollouts each update sees, all alike; by default all of them.",
        low=2,
        common=True,
    )
    minimum_share: float = setting(
        0.01, "An option that holds less than this share of the weights is left out.", low=0.0, high=1.0, common=True
    )
    start_width: float = setting(
        2.0,
        "How wide the first options are, in units of the distance between rollouts and their nearest option.",
        low=1e-3,
        high=1e3,
        common=True,
    )
    ridge: float = setting(1e-3, "Ridge of the options' regression.", low=1e-12, high=1e6)
    variance_floor: float = setting(
        1e-6, "Least variance of an option, in units of the first rollouts' variance.", low=1e-12, high=1e6
    )
    gate_ridge: float = setting(
        3e-4, "Ridge of the gate's softmax regression, whose weights sum to 1.", low=1e-12, high=1e6
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_options > self.max_options:
            raise InputError(f"min_options must lie between 1 and {self.max_options}; got {self.min_options}")


class HiREPSData(NamedTuple):
    """The rollouts of an update in standard units, padded to few sizes; rows outside `mask` are padding."""

    contexts: np.ndarray  # [N, S]
    parameters: np.ndarray  # [N, D]
    returns: np.ndarray  # [N]
    features: np.ndarray  # [N, F]
    mask: np.ndarray  # [N]


def make_data(
    contexts: np.ndarray, parameters: np.ndarray, returns: np.ndarray, features: np.ndarray, expected: int = 0
) -> HiREPSData:
    """Data of N rollouts in standard units; `expected` is how many there will be in the end."""
    rows = padded_size(len(returns), expected)
    return HiREPSData(
        contexts=pad_rows(contexts, rows),
        parameters=pad_rows(parameters, rows),
        returns=pad_rows(returns, rows),
        features=pad_rows(features, rows),
        mask=np.arange(rows) < len(returns),
    )


class HiREPSState(NamedTuple):
    """The hierarchical policy in standard units: what one update hands to the next."""

    options: LinearGaussian  # max_options of them
    kept: np.ndarray  # [O] which of them exist
    gate: SoftmaxGate


class UpdateInfo(NamedTuple):
    """What a plot or a test needs to know of one update; the last three are the sides of the two bounds."""

    ess: float
    temperature: float  # eta
    options_kept: int
    mean_returns: np.ndarray  # [O] weighted mean return of each option
    divergence: float
    overlap: float
    kappa: float


def start(data: HiREPSData, settings: HiREPSSettings) -> HiREPSState:
    """Wide options spread over the rollouts, whatever their returns.

    Centres in the space of [s, xi] by farthest-point traversal and Lloyd's steps; rollouts belong to them by
    exp(-|z - c|^2 / (2 width^2)), and options and gate are fitted to that.
    """
    points = np.concatenate([data.contexts, data.parameters], axis=1)[data.mask]
    centres = spread_points(points, settings.max_options)
    for _ in range(LLOYD_STEPS):
        nearest = np.argmin(_squared_distances(centres, points), axis=0)
        present = np.unique(nearest)
        centres[present] = [points[nearest == each].mean(axis=0) for each in present]
    squared = _squared_distances(centres, points)
    width = settings.start_width**2 * max(float(squared.min(axis=0).mean()), 1e-12)
    weights = np.zeros((settings.max_options, len(data.mask)))
    closeness = np.exp(-0.5 * (squared - squared.min(axis=0)) / width)
    weights[: len(centres), data.mask] = closeness / closeness.sum(axis=0)
    return fit_policy(data, weights, np.arange(settings.max_options) < len(centres), settings)


def _squared_distances(centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.sum((centres[:, None, :] - points[None, :, :]) ** 2, axis=-1)


def update(state: HiREPSState, data: HiREPSData, settings: HiREPSSettings) -> tuple[HiREPSState, UpdateInfo]:
    """One update of the policy: E-step, dual, deletion of options, M-step."""
    log_old = log_responsibilities(state, data)
    uniform = np.zeros(int(data.mask.sum()))
    problem = hireps_dual.make_problem(data.returns[data.mask], data.features[data.mask], uniform, log_old)
    kappa = settings.kappa_share * hireps_dual.overlap(problem)
    solution = hireps_dual.solve(problem, epsilon=settings.epsilon, kappa=kappa)
    weights = np.zeros((len(state.kept), len(data.mask)))
    weights[np.ix_(state.kept, data.mask)] = np.exp(solution.log_weights)
    kept = keep_options(weights.sum(axis=1), state.kept, settings)
    weights = np.where(kept[:, None], weights, 0.0)
    of_rollouts = weights.sum(axis=0)
    returns = np.where(data.mask, data.returns, 0.0)
    info = UpdateInfo(
        ess=float(of_rollouts.sum() ** 2 / np.sum(of_rollouts**2)),
        temperature=solution.eta,
        options_kept=int(kept.sum()),
        mean_returns=weights @ returns / np.maximum(weights.sum(axis=1), 1e-300),
        divergence=solution.divergence,
        overlap=solution.overlap,
        kappa=solution.kappa,
    )
    return fit_policy(data, weights, kept, settings), info


def log_responsibilities(state: HiREPSState, data: HiREPSData) -> np.ndarray:
    """log p~_io [O, N] of the options kept and the rollouts inside the mask."""
    log_gate = softmax_log_probabilities(state.gate, data.features[data.mask])[state.kept]
    options = map_arrays(lambda part: part[state.kept], state.options)
    log_options = gaussian.log_density(options, data.features[data.mask], data.parameters[data.mask])
    log_joint = np.asarray(log_gate) + np.asarray(log_options)
    return np.maximum(log_joint - np.logaddexp.reduce(log_joint, axis=0), LOWEST_LOG)


def keep_options(shares: np.ndarray, kept: np.ndarray, settings: HiREPSSettings) -> np.ndarray:
    """Which options stay [O]: those with enough weight, and the heaviest where these would be too few."""
    heaviest = np.argsort(np.where(kept, -shares, np.inf), kind="stable")[: settings.min_options]
    stays = shares >= settings.minimum_share
    stays[heaviest] = True
    return stays & kept


def fit_policy(data: HiREPSData, weights: np.ndarray, kept: np.ndarray, settings: HiREPSSettings) -> HiREPSState:
    """The M-step: options and gate by maximum likelihood with weights p_io [O, N]."""
    pseudo_samples = data.parameters.shape[1] + 1.0
    given = {"ridge": settings.ridge, "variance_floor": settings.variance_floor, "pseudo_samples": pseudo_samples}
    each = [gaussian.fit(data.features, data.parameters, d, **given) for d in weights]
    options = map_arrays(lambda *parts: np.stack(parts), *each)
    return HiREPSState(options, kept, fit_softmax(data.features, weights, settings.gate_ridge))


class HiREPS(Learner):
    """Hierarchical relative entropy policy search, by ask and tell as `hpsde.HPSDE`, whose arguments it takes.

    Settings are those of `HiREPSSettings`, whole or by name, as in `HiREPS(1, 1, initial=..., epsilon=1.0)`.
    """

    SETTINGS: ClassVar[type] = HiREPSSettings
    FIXED: ClassVar[tuple[str, ...]] = (*Learner.FIXED, "max_options", "start_width")
    settings: HiREPSSettings

    def _draw(self, key: Array, rows: np.ndarray, policy: HierarchicalPolicy) -> Proposal:
        key_option, key_noise = split(key)
        log_gate = policy.gate_scores(rows)
        log_gate = log_gate - np.logaddexp.reduce(log_gate, axis=0)
        option = draw_by_share(key_option, log_gate)
        parameters = policy.sample_options(key_noise, rows, option)
        log_density = np.logaddexp.reduce(log_gate + policy.log_option_densities(rows, parameters), axis=0)
        return Proposal(parameters, option, log_density)

    def _estimate(self, key: Array, usable: np.ndarray) -> HierarchicalPolicy:
        contexts, parameters = self.rollouts.contexts[usable], self.rollouts.parameters[usable]
        # Until a policy has been asked there is nothing to go on from: the start is made anew from all rollouts.
        old = self._policy if np.any(self.rollouts.behaviour[usable] > 0) else None
        if old is None:
            units = fit_units(contexts, parameters, bounds=self.bounds)
            features = self.settings.features.make(contexts)
        else:
            units, features = old.units, old.features
        most, expected = self.settings.window or len(contexts), self.expected_rollouts
        newest = slice(-min(most, len(contexts)), None)
        data = make_data(
            units.contexts(contexts[newest]),
            units.parameters(parameters[newest]),
            self.rollouts.returns[usable][newest],
            features(contexts[newest]),
            expected=min(self.settings.window or expected, expected),
        )
        state = start(data, self.settings) if old is None else _state_of(old)
        state, step = update(state, data, self.settings)
        self.info = replace(self.info, ess=step.ess, temperature=step.temperature, options_kept=step.options_kept)
        return HierarchicalPolicy(
            standard_options=gaussian.cut(state.options, units.limits),
            kept=state.kept,
            gate=state.gate,
            features=features,
            units=units,
            mean_returns=step.mean_returns,
            known_contexts=contexts,
        )


def _state_of(policy: HierarchicalPolicy) -> HiREPSState:
    return HiREPSState(policy.standard_options, policy.kept, cast(SoftmaxGate, policy.gate))
