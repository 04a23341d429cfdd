"""The return function and the directions in which it varies: a known ridge in seven dimensions, and who asks."""

import jax
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from hpsde import gp
from hpsde.base.padding import pad_rows
from hpsde.gp.directions import leading
from hpsde.gp.kernel import JITTER
from hpsde.gp.warp import Warp
from hpsde.settings import Settings
from hpsde.steps import residuals, surface
from hpsde.steps.surface import Start, is_needed

N, ROWS, S, D = 240, 256, 1, 6
DIRECTION = np.array([2.0, -1.0, 0.0, 1.0, -2.0, 0.5]) / np.sqrt(10.25)
ALONG = np.array([*DIRECTION, -0.5])  # of z = [xi, s]
KEY = jax.random.key(0)
SMALL = {"size": 1, "n": 60, "rows": 64}


def ridge(contexts, parameters):
    """Two modes apart along one slanted direction of the parameters; they move with the context."""
    return -np.abs(np.abs(parameters @ DIRECTION[: parameters.shape[1]] - 0.5 * contexts[:, 0]) - 1.0)


def make_rollouts(size=D, n=N):
    rng = np.random.default_rng(0)
    contexts, parameters = rng.normal(size=(n, S)), rng.normal(size=(n, size))
    return contexts, parameters, ridge(contexts, parameters)


def fit(size=D, n=N, rows=ROWS, start=None, returns=None, **settings):
    contexts, parameters, known = make_rollouts(size, n)
    known = known if returns is None else returns
    joint = pad_rows(np.hstack([contexts, parameters]), rows, fill=7.0)
    mask = np.arange(rows) < n
    given = (pad_rows(known, rows), mask / n, mask, np.ones(S + size), start or Start(), Settings(**settings))
    return surface.fit(KEY, joint, S, *given)


@pytest.fixture(scope="module")
def found():
    return fit()


@pytest.fixture(scope="module")
def plain():
    """One context number, one parameter, sixty rollouts with noise."""
    noise = 0.1 * np.random.default_rng(5).normal(size=60)
    return fit(**SMALL, returns=make_rollouts(1, 60)[2] + noise)


def lengths_of(surface):
    return np.exp(np.asarray(surface.process.hyperparameters.log_lengths))


def alignment(found):
    """Cosine between the direction that the kernel sees most and the one that the return varies along."""
    (most,) = leading(np.asarray(found.axes), lengths_of(found), 1)
    return abs(most @ ALONG) / np.linalg.norm(most) / np.linalg.norm(ALONG)


# ---------------------------------------------------------------- axes


def test_what_the_kernel_sees_most_is_the_direction_in_which_the_return_varies(found):
    assert found.start.kind in ("turned", "few")
    assert alignment(found) > 0.995
    assert 0.5 < found.start.held_out <= 1.0


def test_the_process_is_over_what_the_axes_see(found):
    contexts, parameters, returns = make_rollouts()
    z = np.hstack([parameters, contexts])
    mean, _ = gp.predict(found.process, np.asarray(z @ np.asarray(found.axes).T))
    assert (found.warp.inverse(np.asarray(mean)) - returns).std() < 0.3 * returns.std()
    points = np.asarray(found.process.z) + np.asarray(found.process.centre)
    assert_allclose(points[:N], z[found.rows] @ np.asarray(found.axes).T, atol=1e-9)


@pytest.mark.parametrize(("kind", "seen"), [("own", None), ("isotropic", None), ("turned", D + S), ("few", 5)])
def test_settings_choose_the_axes(kind, seen):
    some = fit(gp_axes=kind)
    assert some.start.kind == ("own" if kind == "isotropic" else kind)
    assert (None if some.axes is None else len(some.axes)) == seen
    assert (np.ptp(lengths_of(some)) < 1e-9) == (kind == "isotropic")
    assert (residuals.explained(some) > 0.7) == (seen is not None)


def test_a_second_fit_goes_on_from_the_axes_of_the_first(found):
    again = fit(start=found.start)
    assert_array_equal(again.axes, found.axes)
    assert (again.start.kind, again.start.found, again.start.chosen) == (found.start.kind, N, N)
    for one, other in zip(again.start.hyperparameters, again.process.hyperparameters, strict=True):
        assert_array_equal(one, other)


def test_axes_are_found_again_with_more_rollouts_and_chosen_again_with_many_more(monkeypatch, found):
    chosen = []
    choose = surface._choose_axes
    monkeypatch.setattr(surface, "_choose_axes", lambda *given: chosen.append(1) or choose(*given))
    earlier = found.start._replace(found=int(N / surface.GROWTH), chosen=N)
    again = fit(start=earlier)
    assert (again.start.found, again.start.chosen, chosen) == (N, N, [])
    assert not np.array_equal(again.axes, found.axes)
    assert alignment(again) > 0.995
    # However well the present ones have predicted.
    earlier = earlier._replace(chosen=int(N / surface.CHOICE_GROWTH), held_out=0.999)
    assert fit(start=earlier).start.chosen == N
    assert chosen == [1]


def along_one(parameters):
    return np.sin(2.0 * parameters[:, 0]) + 0.1 * np.random.default_rng(3).normal(size=len(parameters))


def along_two(parameters):
    return np.sin(3.0 * parameters[:, 0]) * np.cos(2.0 * parameters[:, 3])


def along_three(parameters):
    return np.sin(3.0 * parameters[:, 0]) + 0.3 * parameters[:, 1] - 0.3 * parameters[:, 2]


def predicted(kind, function, n):
    """Nats for each rollout left out, of which there are a quarter, by scikit-learn with the kernel of the others."""
    contexts, parameters, _ = make_rollouts(D, n)
    returns, out = function(parameters), np.arange(n) % surface.LEFT_OUT == 0
    joint, mask = np.hstack([contexts, parameters])[~out], np.ones(np.sum(~out), dtype=bool)
    settings = Settings(gp_axes=kind, warp="none")
    some = surface.fit(KEY, joint, S, returns[~out], mask / mask.sum(), mask, np.ones(S + D), Start(), settings)
    z = np.hstack([parameters, contexts]) @ (np.eye(S + D) if some.axes is None else np.asarray(some.axes)).T
    signal, noise = (np.exp(2.0 * float(each)) for each in some.process.hyperparameters[1:])
    kernel = ConstantKernel(signal) * RBF(lengths_of(some))
    model = GaussianProcessRegressor(kernel, alpha=noise + JITTER * signal, optimizer=None)
    scores = (returns - returns[~out].mean()) / returns[~out].std()
    mean, deviation = model.fit(z[~out], scores[~out]).predict(z[out], return_std=True)
    return np.mean(scipy.stats.norm(mean, np.sqrt(deviation**2 + noise)).logpdf(scores[out]))


@pytest.mark.parametrize(
    ("function", "n", "other", "least", "most"),
    [(along_one, N, "own", 0.0, 0.2), (along_two, N, "few", 0.3, 2.0), (along_three, 40, "own", 0.3, 2.0)],
)
def test_other_axes_than_turned_ones_must_predict_clearly_better(function, n, other, least, most):
    """A gain that is none, or less than STEADY, leaves them turned."""
    gain = predicted(other, function, n) - predicted("turned", function, n)
    assert least < gain < most
    assert surface.STEADY == 0.25
    some = fit(n=n, rows=64 if n == 40 else ROWS, returns=function(make_rollouts(D, n)[1]))
    assert some.start.kind == (other if gain > surface.STEADY else "turned")


def judged(monkeypatch, verdicts):
    """Rollouts left out are as likely, and as well explained, as `verdicts` say of kinds of axes and of kernels."""

    def left_out(found, z, y, settings):
        name = found.kernel if found.kernel == "matern" else found.kind
        score, explained = verdicts.get(name, (-100.0, -100.0))
        return score, found._replace(held_out=explained)

    monkeypatch.setattr(surface, "_left_out", left_out)


@pytest.mark.parametrize(
    ("gain", "explained", "wanted"),
    [(1.0, 0.79, "turned"), (1.0, 0.8, "turned"), (0.2, 0.9, "turned"), (1.0, 0.81, "other")],
)
@pytest.mark.parametrize("kind", ["own", "few"])
def test_other_axes_must_explain_more_of_the_rollouts_left_out_and_not_only_make_them_likelier(
    monkeypatch, kind, gain, explained, wanted
):
    judged(monkeypatch, {"turned": (-1.0, 0.8), kind: (gain - 1.0, explained)})
    some = fit(n=60, rows=64)
    assert (some.start.kind, some.start.kernel) == (kind if wanted == "other" else "turned", "se")
    assert some.start.held_out == (explained if wanted == "other" else 0.8)


@pytest.mark.parametrize(("gain", "explained", "wanted"), [(1.0, 0.79, "se"), (-0.1, 0.9, "se"), (0.1, 0.81, "matern")])
def test_a_rough_kernel_must_explain_more_of_the_rollouts_left_out_and_make_them_likelier(
    monkeypatch, gain, explained, wanted
):
    """It needs no lead. With seven numbers, and with two."""
    before = (-1.0, 0.8)
    judged(monkeypatch, {"turned": before, "own": before, "matern": (gain - 1.0, explained)})
    for some in (fit(n=60, rows=64), fit(**SMALL)):
        assert some.start.kernel == some.process.hyperparameters.kernel.name == wanted


def test_without_a_lead_for_turned_axes_the_best_prediction_decides(monkeypatch):
    returns = along_one(make_rollouts()[1])
    monkeypatch.setattr(surface, "STEADY", 0.0)
    assert fit(returns=returns).start.kind == "own"
    monkeypatch.setattr(surface, "STEADY", 100.0)
    assert fit(returns=along_two(make_rollouts()[1])).start.kind == "turned"


@pytest.mark.parametrize("kind", ["own", "few"])
def test_axes_that_were_chosen_before_have_no_lead(kind):
    """All kinds predict about as well."""
    returns = along_one(make_rollouts()[1])
    earlier = fit(returns=returns, gp_axes=kind).start._replace(found=1, chosen=1)
    assert (earlier.kind, fit(returns=returns, start=earlier).start.kind) == (kind, "turned")


def test_what_padding_holds_does_not_matter(found):
    wider = fit(rows=ROWS + 32)
    assert wider.start.kind == found.start.kind
    assert_allclose(wider.axes, found.axes, rtol=1e-6)
    assert_allclose(lengths_of(wider), lengths_of(found), rtol=1e-6)


@pytest.mark.parametrize("changes", [{"size": 2}, {"n": 30, "rows": 64}, {"gp_axes": "own"}], ids=str)
def test_few_dimensions_few_rollouts_or_settings_leave_the_numbers_own_axes(changes):
    some = fit(**changes)
    assert (some.axes, some.start.axes, some.start.kind, some.start.held_out) == (None, None, "own", None)
    contexts, parameters, _ = make_rollouts(changes.get("size", D), changes.get("n", N))
    points = (np.asarray(some.process.z) + np.asarray(some.process.centre))[np.asarray(some.process.mask)]
    assert_allclose(points, np.hstack([parameters, contexts]), atol=1e-12)


def test_a_fit_that_the_other_rollouts_contradict_is_not_taken(monkeypatch):
    """Returns of the rollouts that are fitted have no noise, all others do."""
    contexts, parameters, _ = make_rollouts()
    chosen = gp.fitting_subset(N, 80)
    noise = np.random.default_rng(1).normal(size=N)
    noise[chosen] = 0.0
    joint, mask = np.hstack([contexts, parameters]), np.ones(N, dtype=bool)
    given = (KEY, joint, S, np.sin(parameters[:, 0]) + noise, mask / N, mask, np.ones(S + D))
    of_all = surface.fit(*given, Start(), Settings(gp_axes="own"))
    monkeypatch.setattr(surface, "FIT_POINTS", 80)
    z, y = np.hstack([parameters, contexts]), np.asarray(of_all.scores)
    misled, _ = surface._likeliest(z, y, mask, None, Settings(gp_axes="own"), 80)
    assert misled.log_noise < of_all.start.hyperparameters.log_noise - 1.0
    again = surface.fit(*given, Start(), Settings(gp_axes="own")).start.hyperparameters
    assert_allclose(again.log_noise, of_all.start.hyperparameters.log_noise, atol=0.05)
    kept = surface.fit(*given, of_all.start, Settings(gp_axes="own")).start.hyperparameters
    assert_array_equal(kept.log_noise, of_all.start.hyperparameters.log_noise)
    assert_array_equal(kept.log_lengths, of_all.start.hyperparameters.log_lengths)


def test_nor_is_it_where_rollouts_are_left_out(monkeypatch):
    """The same with returns of the rollouts that are not left out."""
    contexts, parameters, _ = make_rollouts()
    z, (out, known, _) = np.hstack([parameters, contexts]), surface._split(N)
    noise = np.random.default_rng(1).normal(size=N)
    noise[known[gp.fitting_subset(len(known), 80)]] = 0.0
    y, settings = np.sin(parameters[:, 0]) + noise, Settings(gp_axes="own")
    before, _ = gp.fit_hyperparameters(z[known], y[known])
    start = Start(hyperparameters=before, kind="own")
    monkeypatch.setattr(surface, "FIT_POINTS", 80)
    misled, _ = surface._likeliest(z[known], y[known], np.ones(len(known), dtype=bool), before, settings)
    assert misled.log_noise < before.log_noise - 1.0
    score, kept = surface._left_out(start, z, y, settings)
    assert kept.hyperparameters is before
    # What it says of those left out is what scikit-learn says.
    signal, noise_variance = (np.exp(2.0 * float(each)) for each in before[1:])
    kernel = ConstantKernel(signal) * RBF(np.exp(np.asarray(before.log_lengths)))
    model = GaussianProcessRegressor(kernel, alpha=noise_variance + JITTER * signal, optimizer=None)
    mean, deviation = model.fit(z[known], y[known]).predict(z[out], return_std=True)
    density = scipy.stats.norm(mean, np.sqrt(deviation**2 + noise_variance)).logpdf(y[out])
    assert_allclose(score, np.mean(density) + 0.5 * np.log(2.0 * np.pi), rtol=1e-6)
    assert_allclose(kept.held_out, 1.0 - np.mean((y[out] - mean) ** 2) / np.var(y[out]), rtol=1e-6)


# ---------------------------------------------------------------- kernel


def smooth(contexts, parameters):
    return np.sin(1.5 * parameters[:, 0]) + 0.5 * np.cos(contexts[:, 0])


def cliff(contexts, parameters):
    return np.where(parameters[:, 0] > 0.3 * contexts[:, 0], 1.0, -1.0) + 0.3 * contexts[:, 0]


def crease(contexts, parameters):
    return -np.abs(parameters[:, 0] - 0.5 * contexts[:, 0])


def noisy(function, size, n=160):
    contexts, parameters, _ = make_rollouts(size, n)
    return function(contexts, parameters) + 0.03 * np.random.default_rng(7).normal(size=n)


@pytest.mark.parametrize("size", [1, D])
@pytest.mark.parametrize(("function", "kernel"), [(smooth, "se"), (cliff, "matern"), (crease, "matern")])
def test_the_kernel_is_the_one_that_predicts_rollouts_left_out_better(function, kernel, size):
    returns = noisy(function, size)
    some = fit(size, 160, 160, returns=returns)
    assert some.start.kernel == some.process.hyperparameters.kernel.name == kernel
    # A setting for the axes leaves the paper's kernel.
    assert fit(size, 160, 160, returns=returns, gp_axes="own").start.kernel == "se"


def test_the_kernel_is_kept_until_the_rollouts_have_grown_and_then_chosen_anew():
    rough, even = noisy(cliff, 1), noisy(smooth, 1)
    start = fit(1, 160, 160, returns=rough).start
    assert (start.kernel, start.chosen, start.held_out) == ("matern", 160, None)
    for chosen, kernel in ((int(160 / surface.CHOICE_GROWTH) + 1, "matern"), (int(160 / surface.CHOICE_GROWTH), "se")):
        later = fit(1, 160, 160, returns=even, start=start._replace(found=1, chosen=chosen))
        assert (later.start.kernel, later.process.hyperparameters.kernel.name) == (kernel, kernel)


@pytest.mark.parametrize("kind", ["turned", "few"])
def test_axes_found_again_keep_the_kernel(kind):
    returns = noisy(crease, D)
    start = fit(D, 160, 160, returns=returns, gp_axes=kind).start
    start = surface._with_kernel(start, "matern")._replace(found=1, chosen=160)
    later = fit(D, 160, 160, returns=returns, start=start)
    assert (later.start.kind, later.start.kernel, later.start.found) == (kind, "matern", 160)
    assert residuals.explained(later) > 0.7


def test_success_or_failure_has_a_squared_exponential():
    """Whatever the kernel was before."""
    returns = (noisy(cliff, 1) > 0.0).astype(float)
    start = fit(1, 160, 160, returns=noisy(cliff, 1)).start
    for before in (Start(), start, start._replace(found=1, chosen=1)):
        some = fit(1, 160, 160, returns=returns, start=before)
        assert some.binary
        assert some.start.kernel == some.process.hyperparameters.kernel.name == "se"


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_few_rollouts_have_a_squared_exponential(n):
    assert fit(1, n, 16, returns=np.arange(n) % 3.0).start.kernel == "se"


# ---------------------------------------------------------------- what it explains


def test_explained_is_r_squared_of_rollouts_left_out(plain):
    """scikit-learn, conditioned on all rollouts but one, sixty times."""
    known = np.asarray(plain.process.mask)
    z, y = np.asarray(plain.process.z)[known], np.asarray(plain.scores)[known]
    signal, noise = (np.exp(2.0 * float(each)) for each in plain.process.hyperparameters[1:])
    kernel = ConstantKernel(signal) * RBF(lengths_of(plain))
    errors = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        model = GaussianProcessRegressor(kernel, alpha=noise + JITTER * signal, optimizer=None)
        errors.append(y[i] - model.fit(z[others], y[others]).predict(z[i : i + 1])[0])
    assert_allclose(residuals.explained(plain), 1.0 - np.mean(np.square(errors)) / np.var(y), rtol=1e-5)
    # Of some of the points alone:
    share = 1.0 - np.mean(np.square(errors[:20])) / np.var(y[:20])
    assert_allclose(residuals.left_out_share(plain.process, y[:20], np.arange(20)), share, rtol=1e-5)


def test_evidence_is_the_log_density_of_the_returns_for_each_rollout(plain):
    known = np.asarray(plain.process.mask)
    z, y = np.asarray(plain.process.z)[known], np.asarray(plain.scores)[known]
    signal, noise = (np.exp(2.0 * float(each)) for each in plain.process.hyperparameters[1:])
    K = ConstantKernel(signal)(z) * RBF(lengths_of(plain))(z) + (noise + JITTER * signal) * np.eye(len(y))
    truth = scipy.stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y) / len(y)
    assert_allclose(residuals.evidence(plain), truth - np.log(plain.unit), rtol=1e-6)


def test_units_of_the_returns_change_the_evidence_by_their_logarithm_and_nothing_else(plain):
    noise = 0.1 * np.random.default_rng(5).normal(size=60)
    other = fit(**SMALL, returns=-400.0 + 50.0 * (make_rollouts(1, 60)[2] + noise))
    assert_allclose(other.unit, 50.0 * plain.unit, rtol=1e-9)
    assert_allclose(residuals.evidence(other), residuals.evidence(plain) - np.log(50.0), atol=1e-4)
    assert_allclose(residuals.explained(other), residuals.explained(plain), atol=1e-4)


def test_signal_explains_something_and_noise_nothing(found, plain):
    assert residuals.explains(found)
    assert residuals.explains(plain)
    assert not residuals.explains(found._replace(start=found.start._replace(held_out=-0.1)))
    for seed in (11, 12, 13):
        noise = np.random.default_rng(seed).normal(size=60)
        assert not residuals.explains(fit(**SMALL, returns=noise))


def test_returns_of_two_values_are_success_or_failure():
    parameters = make_rollouts(1, 60)[1]
    returns = np.where(parameters[:, 0] > 0.3, 5.0, -2.0)
    some = fit(**SMALL, returns=returns)
    assert some.binary
    assert residuals.explains(some)
    known = np.asarray(some.process.mask)
    assert_array_equal(np.asarray(some.scores)[known], (returns == 5.0)[some.rows])
    log_odds = np.asarray(gp.predict_mean(some.process, some.process.z + some.process.centre[None]))[known]
    assert_array_equal(log_odds > 0.0, (returns == 5.0)[some.rows])
    # The map from scores to returns is the expected return at these odds.
    assert_allclose(some.warp.inverse(np.array([0.0, 2.0])), 7.0 / (1.0 + np.exp([0.0, -2.0])) - 2.0, atol=1e-2)
    # Deviance that the odds explain: of each rollout's own success, by its probability.
    p, rate = 1.0 / (1.0 + np.exp(-log_odds)), np.mean(returns == 5.0)
    success = np.asarray(some.scores)[known] > 0.5
    deviance = [-np.sum(np.log(np.where(success, each, 1.0 - each))) for each in (p, rate)]
    assert_allclose(residuals.explained(some), 1.0 - deviance[0] / deviance[1], atol=1e-3)
    assert not fit(**SMALL, returns=returns, warp="none").binary


def test_success_so_rare_that_no_chosen_point_shows_it_is_fitted_too():
    """The process sees 40 of 60 rollouts, and in none of them the one success."""
    returns = np.zeros(60)
    returns[3] = 1.0
    some = fit(**SMALL, returns=returns, gp_max_points=40)
    assert some.binary
    assert 3 not in some.rows
    assert all(np.all(np.isfinite(part)) for part in (*some.process.hyperparameters, some.process.beta))


def test_scores_that_are_known_are_fitted_in_their_own_unit():
    """Three times the scores, by another map: signal, noise and what is predicted are three times as large."""
    contexts, parameters, returns = make_rollouts(1, 60)
    returns = returns + 0.1 * np.random.default_rng(5).normal(size=60)
    joint, mask = pad_rows(np.hstack([contexts, parameters]), 64, fill=7.0), np.arange(64) < 60
    scores = pad_rows((returns - returns.mean()) / returns.std(), 64)
    plain = fit(**SMALL, returns=returns, warp="none")
    warp = Warp(np.array([-3.0, 1.0]), np.array([-30.0, 10.0]))
    known = (mask, np.ones(S + 1), Start(), Settings(warp="none"))
    same, more = (surface.fit_scores(KEY, joint, S, c * scores, warp, False, *known) for c in (1.0, 3.0))
    for one, other in zip(same.process.hyperparameters, plain.process.hyperparameters, strict=True):
        assert_allclose(one, other, rtol=1e-9)
    assert_allclose(np.asarray(more.scores)[:60], 3.0 * np.asarray(plain.scores)[:60], rtol=1e-12)
    assert_allclose(lengths_of(more), lengths_of(plain), rtol=0.05)
    for name in ("log_signal", "log_noise"):
        gain = getattr(more.process.hyperparameters, name) - getattr(plain.process.hyperparameters, name)
        assert_allclose(gain, np.log(3.0), atol=0.05)
    at = np.asarray([[0.5, 0.0], [-1.0, 1.0]])
    one, other = (np.asarray(gp.predict_mean(each.process, at)) for each in (more, plain))
    assert_allclose(one, 3.0 * other, rtol=0.02, atol=0.02)
    assert more.warp is warp
    assert_allclose(more.unit, 0.1)
    assert not more.binary


def success_of(parameters):
    return np.where(parameters[:, 0] > 0.3, 1.0, 0.0)


def test_success_on_a_level_line_does_not_hide_that_on_a_slanted_one():
    """The likeliest kernel hardly sees the context: a success on the slanted line is alone, and the way to the next is
    not much higher than what lies between the lines.
    """
    rng = np.random.default_rng(0)
    context, parameter = rng.uniform(-1.7, 1.7, (2, 600))
    lines = np.stack([np.full(600, -1.0), 1.0 - 0.3 * context])
    returns = np.any(np.abs(parameter - lines) < 0.035, axis=0).astype(float)
    joint, mask = np.stack([context, parameter], axis=1), np.ones(600, dtype=bool)

    def odds(longest):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(surface, "LONGEST_CONTEXT", longest)
            found = surface.fit(KEY, joint, 1, returns, returns, mask, np.ones(2), Start(), Settings())
        at = np.linspace(-1.5, 1.5, 9)
        on, between = (np.asarray(np.stack([xi, at], axis=1)) for xi in (1.0 - 0.3 * at, 0.0 * at))
        gap = gp.predict_mean(found.process, on).min() - gp.predict_mean(found.process, between).max()
        return lengths_of(found)[1], float(gap)

    length, gap = odds(surface.LONGEST_CONTEXT)
    assert_allclose(length, context.std(), rtol=0.02)
    likeliest, less = odds(100.0)
    assert likeliest > 3.0
    assert gap > less + 1.0


def test_the_kernel_of_success_lasts_until_the_rollouts_have_grown():
    """In between, the process has the last kernel and all rollouts."""
    returns = success_of(make_rollouts(1, 60)[1])
    first = fit(**SMALL, returns=returns)
    assert first.start.fitted == 60
    again = fit(**SMALL, returns=returns[::-1], start=first.start)
    assert again.start.hyperparameters is first.start.hyperparameters
    assert (again.start.mean, again.start.fitted) == (first.start.mean, 60)
    assert not np.allclose(again.process.beta, first.process.beta)
    for fitted, old in ((int(60 / surface.GROWTH), True), (int(60 / surface.GROWTH) + 1, False)):
        later = fit(**SMALL, returns=returns, start=first.start._replace(fitted=fitted))
        assert (later.start.hyperparameters is first.start.hyperparameters) != old
        assert later.start.fitted == (60 if old else fitted)


def test_the_kernel_of_other_returns_lasts_until_the_rollouts_have_grown(plain):
    """Without noise where there was some: it is gone with the next fit."""
    for fitted, old in ((int(60 / surface.REFIT), True), (60, False)):
        again = fit(**SMALL, start=plain.start._replace(fitted=fitted))
        less = again.process.hyperparameters.log_noise - plain.process.hyperparameters.log_noise
        assert (less < -0.7) == old
        assert again.start.fitted == (60 if old else fitted)


def test_a_kernel_that_lasts_is_that_of_the_returns_whatever_the_scores_unit(plain):
    """Returns clipped elsewhere have other scores; signal and noise in returns stay what they were."""
    low = make_rollouts(1, 60)[2]
    low[:3] = -40.0
    again = fit(**SMALL, returns=low, start=plain.start)
    assert not np.isclose(again.unit, plain.unit, rtol=0.05)
    for name in ("log_signal", "log_noise"):
        one, other = (float(np.exp(getattr(each.process.hyperparameters, name)) * each.unit) for each in (plain, again))
        assert_allclose(one, other, rtol=1e-9)


def test_returns_that_are_no_longer_success_or_failure_have_a_kernel_of_their_own():
    """Log odds have no noise and a signal of their own: nothing that scores could be fitted by."""
    returns = success_of(make_rollouts(1, 60)[1])
    first = fit(**SMALL, returns=returns)
    noise = 0.3 * np.random.default_rng(6).normal(size=60)
    later = fit(**SMALL, returns=returns + noise, start=first.start)
    assert (first.binary, later.binary) == (True, False)
    alone = fit(**SMALL, returns=returns + noise)
    assert_allclose(later.process.hyperparameters.log_noise, alone.process.hyperparameters.log_noise, atol=0.1)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [({}, False), ({"gate": "gp"}, True), ({"density": "options"}, True), ({"model_step": True}, True)],
)
def test_the_process_is_fitted_where_something_asks_for_it(changes, wanted):
    nothing = {"gate": "softmax", "density": "vb", "model_step": False}
    assert is_needed(Settings(**(nothing | changes))) == wanted
    assert is_needed(Settings())
