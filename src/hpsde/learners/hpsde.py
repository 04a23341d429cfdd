"""HPSDE as ask / tell: the shell around Algorithm 1 that keeps the rollouts and who made them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hpsde import gp
from hpsde.algorithm import reestimate
from hpsde.base.draws import permutation, split, uniform_rows
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.precision import double_precision
from hpsde.base.shapes import Array
from hpsde.errors import InputError
from hpsde.learners.ask_tell import DENSITY, Info, Learner, Proposal
from hpsde.policy.doubts import Doubt, Signs, find_doubts, signs_of_regions
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.settings import Settings, changed_settings
from hpsde.steps import climbing, discovery, gaussian, latent, level, scouting, stopping
from hpsde.steps.behaviours import History
from hpsde.steps.climbing import Seen
from hpsde.steps.features import FEATURE_NAMES, FeatureMap, bent
from hpsde.steps.gates import explorer_of
from hpsde.steps.gating import GPGate, returns_in_use
from hpsde.steps.initial import EstimatedDensity, kernel_log_density
from hpsde.steps.judging import StepInfo, judged, share_outside
from hpsde.steps.landscape import Landscape
from hpsde.steps.remembering import with_slots
from hpsde.steps.rollouts import GIVEN, INITIAL, Data, Units, fit_units
from hpsde.steps.state import State

__all__ = ["HPSDE", "Frame", "Info", "Proposal"]


class Frame(NamedTuple):
    """Units, features and initial density, from the initial rollouts; fixed once a policy has been asked.

    bends: how many features, the last ones, are there only to bend an option's mean (steps/refinement.py).
    """

    units: Units
    features: FeatureMap
    estimated: EstimatedDensity | None  # where the initial policy has no density of its own and it was asked for
    bends: int = 0

    def plain_features(self, contexts: np.ndarray) -> np.ndarray:
        """The features [N, F - bends] of contexts [N, S] that options are sought with."""
        features = self.features(contexts)
        return features[:, : features.shape[1] - self.bends]


class _Climbs(NamedTuple):
    """Parameters [n, D] in the user's units, and the place of the option whose hill is climbed [n]."""

    places: np.ndarray
    option: np.ndarray


class HPSDE(Learner):
    """Hierarchical policy search via return-weighted density estimation, by ask and tell.

    `initial` is where the first parameters come from: a distribution (`hpsde.Uniform`, `hpsde.Gaussian`), an
    array of samples [n, D], or a task. `ask` draws from it until `initial_rollouts` have been told that did
    not fail; from then on it draws from the policy learned so far. `expected_rollouts` is a hint: with it,
    functions are compiled once, not anew as the data grow. Settings can be given by name, as in
    `HPSDE(1, 1, initial=..., update="rwr")`. The guide "Ask and tell" shows it at work.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Learner.STATE, "_history", "_frame", "_state")
    FIXED: ClassVar[tuple[str, ...]] = (*Learner.FIXED, "options.whitening")

    settings: Settings

    def _begin(self) -> None:
        self._check_regions()
        self._history = History(self.expected_rollouts)
        self._frame: Frame | None = None
        self._state = State()
        self._looks: dict[bytes, Seen] = {}  # what climbs have computed: a cache
        self._conditioned: tuple[int, gp.GP] | None = None  # the landscape's process, and after how many updates

    @double_precision
    def change_settings(self, changes: dict[str, Any]) -> None:
        """Change settings; options keep their numbers where `max_options` grows, and are of the same form."""
        before = self.settings
        wanted = changed_settings(self.SETTINGS, self.settings, changes).options.form
        if self.info.updates and wanted != self.settings.options.form:
            raise self._fixed("options")
        super().change_settings(changes)
        try:
            self._check_regions()
        except InputError:
            self.settings = before
            raise
        self._state = with_slots(self._state, self.settings.max_options)

    def _check_regions(self) -> None:
        if self.settings.density.kind == "regions" and self.context_size:
            raise InputError(
                f"density 'regions' is for tasks without a context: a solution must be a point; there are "
                f"{self.context_size} numbers of context. Leave it out, or use density='options'"
            )

    def _draw(self, key: Array, rows: np.ndarray, policy: HierarchicalPolicy) -> Proposal:
        key_option, key_noise, key_scouts = split(key, 3)
        parameters, option = self._drawn(key_option, key_noise, key_scouts, rows, policy)
        climbs = self._climbs(len(rows))
        parameters[: len(climbs.places)], option[: len(climbs.places)] = climbs.places, climbs.option
        if np.isfinite(self._state.least) and self.settings.density.scouts:
            rising = np.cumsum(policy.kept)[self._state.climbing[self._state.climbing >= 0]] - 1
            idle = (option != INITIAL) & ~np.isin(option, rising)
            idle[: len(climbs.places)] = False
            parameters[idle], option[idle] = self._unclimbed(key_noise, rows[idle], parameters[~idle]), INITIAL
        own, others = option != INITIAL, np.flatnonzero(option == INITIAL)
        log_density = np.zeros(len(rows))
        if own.any():
            self._decided(rows[own], option[own], policy)
            standard, features = policy.units.contexts(rows), policy.features(rows)
            within = policy.units.parameters(parameters)
            log_density = np.array(self._history.log_density(self.info.updates, standard, features, within))
            log_density -= policy.units.log_volume
        if len(others):
            known = self._initial.log_density(rows[others], parameters[others])
            log_density[others] = np.nan if known is None else known
        return Proposal(parameters, option, log_density)

    def _drawn(
        self, key_option: Array, key_noise: Array, key_scouts: Array, rows: np.ndarray, policy: HierarchicalPolicy
    ) -> tuple[np.ndarray, np.ndarray]:
        """Parameters [N, D] by the options that the gate draws, or by scouts, and these options [N]; by the initial
        policy where options are on tops that regions have found, and their own rollouts would bring nothing new.
        """
        if self._state.regions is not None:
            return np.array(self._initial.sample(key_noise, rows)), np.full(len(rows), INITIAL)
        scouts, unseen = self._scouts(key_scouts, rows, policy)
        explorer = explorer_of(policy.gate, self.settings.gate)
        values = policy.gate_scores(rows, explorer.optimism)
        option = np.array(explorer.choose(key_option, policy.gate, values, self.info.temperature))
        parameters = np.array(policy.sample_options(key_noise, rows, option))
        parameters[scouts], option[scouts] = unseen, INITIAL
        return parameters, option

    def _climbs(self, count: int) -> _Climbs:
        """At most `count` of the rollouts that climbs ask for, those of the highest hills, and none a second time."""
        frame, state, policy = self._frame, self._state, self._policy
        if frame is None or policy is None or not len(state.climbs):
            return _Climbs(np.zeros((0, self.parameter_size)), np.zeros(0, dtype=int))
        places, rollouts = frame.units.raw_parameters(state.climbs), self.rollouts
        told = rollouts.parameters[~rollouts.failed][len(state.distrusted) :]
        # What failed leaves no trace but its parameters.
        done = np.concatenate([told, self.pending, rollouts.parameters[rollouts.failed]])
        left = ~np.any(np.all(places[:, None] == done[None], axis=2), axis=1)
        known = self._initial.log_density(np.zeros((len(places), self.context_size)), places)
        if known is not None:  # what nobody's hill asks for counts as the initial policy's
            left &= (state.climbing >= 0) | np.isfinite(known)
        chosen = np.flatnonzero(left)[:count]
        slots = state.climbing[chosen]
        return _Climbs(places[chosen], np.where(slots < 0, INITIAL, np.cumsum(policy.kept)[slots] - 1))

    def _scouts(self, key: Array, rows: np.ndarray, policy: HierarchicalPolicy) -> tuple[np.ndarray, np.ndarray]:
        """The contexts [N, S] in which scouts are sent (steps/scouting.py), as rows, and their parameters."""
        none = np.zeros(0, dtype=int), np.zeros((0, self.parameter_size))
        key_count, key_rows, key_pool, key_guess = split(key, 4)
        gone = self._scouts_gone()
        count = int(self.settings.density.scouts * len(rows) + float(uniform_rows(key_count, 1)[0]))
        if self._state.landscape is None or self._frame is None or count <= 0:
            return none
        order = permutation(key_rows, len(rows))
        guessed, tried = self._tries(key_guess, rows, order[:count], gone)
        done = self.info.width < scouting.NARROW
        others = order[len(guessed) : count if done else min(count, len(guessed) + scouting.MOST - gone)]
        # NaN: nothing is known of that.
        if not len(others) or (self.info.unexplored < scouting.UNSEEN and not done):
            return guessed, tried
        some, unseen = self._unseen(key_pool, rows, others, policy)
        return np.concatenate([guessed, some]), np.concatenate([tried, unseen])

    def _unclimbed(self, key: Array, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Parameters for the contexts [n, S], apart from all rollouts and from the `others` [N, D] of this round, where
        a hill is likeliest to be as high as a solution.
        """
        frame, state, usable = self._frame, self._state, ~self.rollouts.failed
        if frame is None or not len(rows):
            return np.zeros((0, self.parameter_size))
        usable[np.flatnonzero(usable)[: len(state.distrusted)][state.distrusted]] = False
        x, y = frame.units.parameters(self.rollouts.parameters[usable]), self.rollouts.returns[usable]
        y = y - frame.units.level(self.rollouts.contexts[usable])
        apart = scouting.APART * climbing.spacing_of(int(np.sum(self._first & usable)), x.shape[1])
        share = max(scouting.DRAWN, -(-scouting.LEAST_DRAWN // len(rows)))
        drawn = self._initial.sample(key, np.repeat(rows, share, axis=0))
        under_way = frame.units.parameters(np.concatenate([self.pending, others]))
        places = frame.units.parameters(drawn)
        return drawn[scouting.likeliest(x, y, places, under_way, state.least, apart, len(rows))]

    def _scouts_gone(self) -> int:
        """How many rollouts of the initial policy there are beyond those that the first learning step waits for."""
        initial, given = (int(np.sum((self.rollouts.behaviour == who) & ~self.rollouts.failed)) for who in (0, GIVEN))
        return initial - max(self.initial_rollouts - given, 0)

    def _tries(self, key: Array, rows: np.ndarray, some: np.ndarray, gone: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of `some` contexts in which guesses are tried, scouting.TRIES for each, and their parameters."""
        found, frame = self._state.found, self._frame
        most = int(scouting.MOST_TRIED * len(self.rollouts)) - gone
        count = 0 if found is None else min(len(some), scouting.TRIES * len(found.guesses), most)
        if found is None or frame is None or count <= 0:
            return np.zeros(0, dtype=int), np.zeros((0, self.parameter_size))
        some = some[:count]
        policies, which = discovery.guessed_policies(found), np.arange(count) % len(found.guesses)
        parameters = frame.units.raw_parameters(gaussian.draw(key, policies, frame.plain_features(rows[some]), which))
        known = self._initial.log_density(rows[some], parameters)
        possible = np.ones(count, dtype=bool) if known is None else np.isfinite(known)
        return some[possible], parameters[possible]

    def _unseen(
        self, key: Array, rows: np.ndarray, some: np.ndarray, policy: HierarchicalPolicy
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of `some` contexts in which unexplored parameters may be good enough, and these parameters."""
        landscape, frame, count = self._state.landscape, self._frame, len(some)
        if landscape is None or frame is None:
            raise RuntimeError("there is no landscape yet")
        drawn = self._initial.sample(key, np.repeat(rows[some], scouting.POOL, axis=0))
        contexts, standard = frame.units.contexts(rows[some]), frame.units.parameters(drawn)
        means = frame.units.raw_parameters(policy.standard_means(rows[some]))
        means = frame.units.parameters(means.reshape(-1, self.parameter_size))
        pools = standard.reshape(count, scouting.POOL, -1)
        options = means.reshape(-1, count, self.parameter_size)
        found = scouting.choose(landscape, self._process(frame, landscape), contexts, pools, options)
        taken = drawn.reshape(count, scouting.POOL, -1)[np.arange(count), found.chosen]
        return some[found.worth], taken[found.worth]

    @property
    def _landscape_is_sought(self) -> bool:
        """Whether options are solutions that the landscape shows; also where regions are asked for and cannot climb."""
        return self._state.regions is None and self.settings.density.kind in ("options", "regions")

    def _process(self, frame: Frame, landscape: Landscape) -> gp.GP:
        """The landscape's process given the rollouts that the policy was learned from."""
        if self._conditioned is None or self._conditioned[0] != self.info.updates:
            believed = self._believed(self._data(frame, ~self.rollouts.failed))
            self._conditioned = self.info.updates, latent.conditioned(believed, landscape)[0]
        return self._conditioned[1]

    def _believed(self, data: Data) -> Data:
        """The rollouts, without the outliers that the last learning step left out."""
        return data._replace(mask=data.mask & ~pad_rows(self._state.distrusted, len(data.mask)))

    @double_precision
    def recall(self, contexts: np.ndarray, option: np.ndarray) -> None:
        """The present policy chose these options [N] in contexts [N, S]; `propose` has said so already."""
        if self._policy is not None:
            self._decided(self._encoded(contexts), option, self._policy)

    def _decided(self, contexts: np.ndarray, option: np.ndarray, policy: HierarchicalPolicy) -> None:
        """Record the gate's decisions: the policy's density is computed from them."""
        slots = np.flatnonzero(policy.kept)[option]
        self._history.add(self.info.updates, policy.standard_options, policy.units.contexts(contexts), slots)

    def _estimate(self, key: Array, usable: np.ndarray) -> HierarchicalPolicy:
        explained = self.info.explained
        if self._frame is None or not self._history.behaviours:
            explained = float("nan")
            # Until a policy has been asked, only the state is in the units of the old frame: all but the numbers goes.
            self._frame, self._state = self._make_frame(usable), State(next_number=self._state.next_number)
        frame, settings = self._frame, self.settings
        data, maps = self._data(frame, usable), self._feature_maps(frame, usable)
        rows, contexts = len(data.mask), self.rollouts.contexts[usable]

        def log_behaviour(P: np.ndarray | None) -> np.ndarray:
            return pad_rows(self._log_behaviour(frame, usable, P)[usable], rows)

        candidates = [(pad_rows(each.features(contexts), rows), each.bends) for each in maps]
        given = frame.units.spreads, candidates, log_behaviour, self._state, settings, self._looks
        estimate, self._state, step = reestimate(key, data, *given)
        if estimate.features is not None:
            self._frame = maps[estimate.features]
        # Where many rollouts are close together, what is left of a model that is smoother than the return spoils its
        # prediction of first rollouts beside them: what it did best before is what it knows of the return at large.
        step = replace(step, explained=float(np.fmax(step.explained, explained)))
        self.info = replace(self.info, **vars(step))
        if estimate.shown is not None:
            self._conditioned = self.info.updates + 1, estimate.shown.model.process
        policy = HierarchicalPolicy(
            standard_options=estimate.options,
            kept=estimate.kept,
            gate=estimate.gate,
            features=self._frame.features,
            units=frame.units,
            mean_returns=estimate.mean_returns,
            known_contexts=contexts,
            numbers=estimate.numbers,
            tried=np.isin(estimate.numbers, self.rollouts.number) if self._landscape_is_sought else None,
        )
        policy = replace(policy, doubts=self._doubts(self._believed(data), step, policy))
        self.info = replace(self.info, to_gain=self._to_gain(step, policy))
        return policy

    def _to_gain(self, step: StepInfo, policy: HierarchicalPolicy) -> float:
        """The share of the signal that is left to gain (steps/stopping.py); infinite where it is unknown."""
        gate = policy.gate
        climbs = len(self._state.climbs) > 0
        if climbs or step.quiet < stopping.QUIET or policy.doubts or not isinstance(gate, GPGate) or gate.binary:
            return float("inf")
        rows = policy.known_contexts[gp.spread_subset(len(policy.known_contexts), stopping.CONTEXTS)]
        asked = policy.standard_options, policy.kept, policy.features(rows), policy.units.contexts(rows)
        moments = returns_in_use(gate, *asked)
        mean, deviation = (np.asarray(each)[policy.kept] for each in moments)
        signal = float(np.exp(gate.process.hyperparameters.log_signal))
        unsure = stopping.left_of_gate(mean, deviation) > stopping.UNSURE * signal
        return float("inf") if unsure else stopping.left_of_options(step.width)

    def _doubts(self, data: Data, step: StepInfo, policy: HierarchicalPolicy) -> tuple[Doubt, ...]:
        """The doubts about the policy; none with joint Gaussians, which have no model of the return to check it by."""
        if self._state.regions is not None:
            return find_doubts(signs_of_regions(step.options_kept, step.maxima, self._state.settled, step.climbing))
        if not self._landscape_is_sought:
            return ()
        expected = float("nan")
        if isinstance(policy.gate, GPGate) and policy.gate.cautious:
            contexts = policy.known_contexts[judged(data)]
            best = policy.gate_scores(contexts).max(axis=0)
            expected = float(np.mean(policy.gate.warp.inverse(best) + policy.units.level(contexts)))
        signs = Signs(
            explained=step.explained,
            unexplored=step.unexplored,
            expected=expected,
            best_first=step.best_first,
            width=step.width,
            options=step.options_kept,
            maxima=step.maxima,
            settled=self._state.settled,
            outside=float("nan") if self.bounds_are_given else share_outside(data),
            directions=step.directions,
            first=int(np.sum(data.mask & data.initial)),
            beaten=step.beaten,
            scatter=step.scatter,
        )
        return find_doubts(signs)

    def _make_frame(self, usable: np.ndarray) -> Frame:
        contexts, parameters = self.rollouts.contexts[usable], self.rollouts.parameters[usable]
        units = fit_units(contexts, parameters, whitening=self.settings.options.whitening, bounds=self.bounds)
        chosen = self.settings
        if chosen.return_model.warp != "none":
            first = usable & self._first
            known = units.contexts(self.rollouts.contexts[first]), self.rollouts.returns[first]
            units = units._replace(return_level=level.fit(*known))
        return self._with_features(Frame(units, chosen.features.make(contexts), None), contexts)

    def _with_features(self, frame: Frame, contexts: np.ndarray) -> Frame:
        """The frame, its features followed by those that may bend an option, where there are rollouts for them."""
        settings = self.settings
        if not settings.options.refine or settings.density.kind != "options":
            return frame
        if settings.options.trained is not None:  # such means bend by themselves
            return frame
        wider = bent(frame.features)
        if wider is frame.features:
            return frame
        plain, count = (each(contexts[:1]).shape[1] for each in (frame.features, wider))
        if count + 1 > len(contexts) / latent.PER_NUMBER:
            return frame
        return frame._replace(features=wider, bends=count - plain)

    @property
    def _first(self) -> np.ndarray:
        """The rollouts [N] that cover the whole space: those of the initial policy, and data from elsewhere."""
        return np.isin(self.rollouts.behaviour, (0, GIVEN))

    def _feature_maps(self, frame: Frame, usable: np.ndarray) -> list[Frame]:
        """Frames with the features to choose from; none once they are chosen, or where there is nothing to choose."""
        chosen, contexts = self.settings, self.rollouts.contexts[usable]
        if self._history.behaviours or chosen.features.kind != "automatic" or not self.context_size:
            return []
        maps: list[FeatureMap] = [replace(chosen.features, kind=name).make(contexts) for name in FEATURE_NAMES[1:]]

        def enough(each: FeatureMap) -> bool:
            return len(contexts) >= latent.PER_NUMBER * (each(contexts[:1]).shape[1] + 1)

        if chosen.options.more(self.context_size) and enough(maps[-1]):
            maps = maps[-1:]  # options that bend by themselves are found where components can follow them
        else:  # those with too few rollouts are not considered, nor those after: pictures have millions of products
            maps = list(itertools.takewhile(enough, maps)) or maps[:1]
        return [self._with_features(frame._replace(features=each), contexts) for each in maps]

    def _data(self, frame: Frame, usable: np.ndarray) -> Data:
        """The usable rollouts in standard units, padded, but without pi_old."""
        contexts, returns = self.rollouts.contexts[usable], self.rollouts.returns[usable]
        parameters = frame.units.parameters(self.rollouts.parameters[usable])
        rows = padded_size(len(returns), expected=self.expected_rollouts)
        return Data(
            contexts=pad_rows(frame.units.contexts(contexts), rows),
            parameters=pad_rows(parameters, rows),
            returns=pad_rows(returns, rows),
            features=pad_rows(frame.features(contexts), rows),
            bends=frame.bends,
            log_behaviour=np.zeros(rows),
            mask=np.arange(rows) < len(returns),
            initial=pad_rows(self._first[usable], rows),
            rollouts=len(returns),
            level=pad_rows(frame.units.level(contexts), rows),
            limits=frame.units.limits,
            range=self._range(frame, usable & (self.rollouts.behaviour == 0)),
        )

    def _range(self, frame: Frame, first: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The bounds, or lowest and highest parameters of the initial rollouts, where the initial policy is uniform."""
        if frame.units.turned or not first.any():
            return None
        known = self._initial.log_density(self.rollouts.contexts[first], self.rollouts.parameters[first])
        if known is None or np.ptp(known) > 1e-9:
            return None
        if frame.units.limits is not None and not self.bounds_are_given:
            return frame.units.limits
        parameters = frame.units.parameters(self.rollouts.parameters[first])
        return parameters.min(axis=0), parameters.max(axis=0)

    def _log_behaviour(self, frame: Frame, usable: np.ndarray, P: np.ndarray | None) -> np.ndarray:
        """log pi_old [N] of all rollouts, or of the combinations xi P of their parameters."""
        rollouts, units = self.rollouts, frame.units
        contexts, parameters = units.contexts(rollouts.contexts), units.parameters(rollouts.parameters)
        every = contexts, frame.features(rollouts.contexts), parameters
        log_initial = self._log_initial(frame, usable, contexts, parameters, P)
        unknown = rollouts.behaviour < 0
        log_unknown = self._estimated(1, usable & unknown, contexts, parameters, P) if unknown.any() else None
        table = self._history.log_densities(*every, log_initial, P, log_unknown)
        who = self._history.rows_of(rollouts.behaviour)
        return self.settings.weights.behaviour.log_density(table, who, usable)

    def _log_initial(
        self, frame: Frame, usable: np.ndarray, contexts: np.ndarray, parameters: np.ndarray, P: np.ndarray | None
    ) -> np.ndarray:
        """log pi_0(xi | s) [N] in standard units: the initial policy's own, or estimated from its rollouts."""
        known = self._initial.log_density(self.rollouts.contexts, self.rollouts.parameters) if P is None else None
        if known is not None:
            return np.asarray(known) + frame.units.log_volume
        first = usable & (self.rollouts.behaviour == 0)
        if P is not None or first.sum() < 2:
            return self._estimated(0, first if first.sum() > 1 else usable & self._first, contexts, parameters, P)
        estimated = frame.estimated
        if estimated is None:
            estimated = EstimatedDensity.fit(self._key(DENSITY, 0), contexts[first], parameters[first])
            self._frame = frame._replace(estimated=estimated)
        return estimated.log_density(contexts, parameters)

    def _estimated(
        self, stream: int, known: np.ndarray, contexts: np.ndarray, parameters: np.ndarray, P: np.ndarray | None
    ) -> np.ndarray:
        """log p(xi | s) [N], or that of the combinations xi P, estimated from the rollouts `known` [N]."""
        if not known.any():
            return np.zeros(len(contexts))  # of nobody
        if P is not None:
            points = contexts[known], parameters[known] @ P
            return kernel_log_density(points, contexts, parameters @ P)
        estimated = EstimatedDensity.fit(self._key(DENSITY, stream), contexts[known], parameters[known])
        return estimated.log_density(contexts, parameters)
