"""The estimator: scikit-learn's own checks, its own mixture at unit weights, and weights as counts."""

import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from sklearn.utils.estimator_checks import (
    check_estimators_pickle,
    check_fit2d_1feature,
    check_fit2d_1sample,
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from hpsde.sklearn import WeightedBayesianGaussianMixture
from patience import LONG

COVARIANCES = ("full", "tied", "diag", "spherical")
PRIORS = ("dirichlet_process", "dirichlet_distribution")
FORMS = [
    {"covariance_type": covariance, "weight_concentration_prior_type": prior}
    for covariance in COVARIANCES
    for prior in PRIORS
]
STARTS = ("kmeans", "k-means++", "random", "random_from_data")
SETTINGS = {
    "n_components": 5,
    "weight_concentration_prior": 0.3,
    "mean_precision_prior": 0.2,
    "degrees_of_freedom_prior": 4.5,
    "mean_prior": [100.0, 1.0, -2.0],
    "reg_covar": 1e-3,
}
COVARIANCE_PRIORS = {
    "full": np.diag([1.0, 50.0, 0.01]) + 0.01,
    "tied": np.diag([1.0, 50.0, 0.01]) + 0.01,
    "diag": [1.0, 50.0, 0.01],
    "spherical": 2.5,
}


def name(form):
    return "-".join(form.values()) or "defaults"


def every_prior(form):
    return {**SETTINGS, **form, "covariance_prior": COVARIANCE_PRIORS[form["covariance_type"]]}


def clusters(seed, n=200):
    """Four clusters of three numbers with very different units, far from 0."""
    random = np.random.default_rng(seed)
    labels = random.integers(4, size=n)
    x = 3 * random.normal(size=(4, 3))[labels] + random.normal(size=(n, 3))
    return x * [1.0, 10.0, 0.1] + [100.0, 0.0, -3.0]


def given(responsibilities):
    """scikit-learn's estimator, started from given responsibilities."""

    class Given(BayesianGaussianMixture):
        def _initialize_parameters(self, X, random_state, xp=None):
            self._initialize(X, responsibilities)

    return Given


def pair(x, responsibilities=None, **settings):
    """Both estimators, fitted from the same start."""
    settings = {"max_iter": 300, "random_state": 3, **settings}
    kind = BayesianGaussianMixture if responsibilities is None else given(responsibilities)
    theirs = kind(**settings).fit(x)
    if responsibilities is not None:
        settings["init_params"] = responsibilities
    return theirs, WeightedBayesianGaussianMixture(**settings).fit(x)


def assert_agree(theirs, ours, x, rtol=1e-7):
    for name in (
        "weights_",
        "means_",
        "covariances_",
        "precisions_",
        "precisions_cholesky_",
        "weight_concentration_",
        "mean_precision_",
        "degrees_of_freedom_",
        "weight_concentration_prior_",
        "mean_precision_prior_",
        "mean_prior_",
        "degrees_of_freedom_prior_",
        "covariance_prior_",
    ):
        mine, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-9)
    np.testing.assert_allclose(ours.score_samples(x), theirs.score_samples(x), rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    np.testing.assert_allclose(ours.score(x), theirs.score(x), rtol=1e-10)


def assert_same_bounds(theirs, ours, n):
    """Iteration by iteration, but for what scikit-learn leaves out."""
    assert ours.n_iter_ == theirs.n_iter_ == len(ours.lower_bounds_) == len(theirs.lower_bounds_)
    wanted = np.ravel(theirs.lower_bounds_) + left_out(theirs, n)  # of tied covariances scikit-learn has arrays of 1
    np.testing.assert_allclose(ours.lower_bounds_, wanted, rtol=1e-9)
    assert ours.lower_bound_ == ours.lower_bounds_[-1]


def left_out(model, n):
    """What scikit-learn's lower bound leaves out: the prior's normalisers and all powers of 2 pi and pi."""
    O, Z = model.means_.shape
    alpha, beta, nu = (
        model.weight_concentration_prior_,
        model.mean_precision_prior_,
        model.degrees_of_freedom_prior_,
    )
    scale = model.covariance_prior_
    log_det = np.linalg.slogdet(scale if np.ndim(scale) == 2 else scale * np.eye(Z))[1]
    if model.weight_concentration_prior_type == "dirichlet_process":
        weights = -O * betaln(1.0, alpha)
    else:
        weights = gammaln(O * alpha) - O * gammaln(alpha)
        weights -= gammaln(O * alpha + n) - gammaln(model.weight_concentration_.sum())
    gamma = gammaln((nu - np.arange(Z)) / 2).sum()
    wishart = 0.5 * nu * (log_det - Z * np.log(2)) - gamma
    return weights + O * (wishart + 0.5 * Z * np.log(beta)) - 0.5 * n * Z * np.log(2 * np.pi)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([WeightedBayesianGaussianMixture(**FORMS[index]) for index in (0, 7)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Those of scikit-learn's checks that the shape of the covariances has to do with; each size compiles every form anew.
SHAPE_CHECKS = (
    check_fit2d_1feature,
    check_fit2d_1sample,
    check_methods_subset_invariance,
    check_methods_sample_order_invariance,
    check_sample_weight_equivalence_on_dense_data,
    check_estimators_pickle,
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", SHAPE_CHECKS)
@pytest.mark.parametrize("form", [FORMS[3], FORMS[4]], ids=name)
def test_scikit_learn_checks_of_the_other_covariances(form, check):
    check("WeightedBayesianGaussianMixture", WeightedBayesianGaussianMixture(**form))


def test_arguments_and_defaults_are_those_of_scikit_learn():
    assert WeightedBayesianGaussianMixture().get_params() == BayesianGaussianMixture().get_params()


@pytest.mark.parametrize("init_params", STARTS)
def test_unit_weights_agree_with_scikit_learn(init_params):
    x = clusters(0)
    theirs, ours = pair(x, n_components=5, init_params=init_params)
    assert theirs.n_iter_ > 5
    assert ours.converged_ == theirs.converged_
    assert_agree(theirs, ours, x)
    assert_same_bounds(theirs, ours, len(x))


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_every_form_agrees_with_scikit_learn(form):
    x = clusters(0)
    theirs, ours = pair(x, n_components=5, init_params="kmeans", tol=1e-6, **form)
    assert theirs.n_iter_ > 5
    assert ours.converged_ == theirs.converged_
    assert_agree(theirs, ours, x)
    assert_same_bounds(theirs, ours, len(x))


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_agrees_from_given_responsibilities_and_with_every_prior_set(form):
    x = clusters(1)
    responsibilities = np.random.default_rng(1).dirichlet(np.ones(5), size=len(x))
    theirs, ours = pair(x, responsibilities, **every_prior(form))
    assert theirs.n_iter_ > 5
    assert_agree(theirs, ours, x)
    assert_same_bounds(theirs, ours, len(x))


@pytest.mark.parametrize(("form", "components"), list(zip(FORMS, (1, 3, 3, 1) * 2, strict=True)))
def test_one_feature_and_one_component_agree(form, components):
    """Each covariance with one component and with three, each prior too."""
    x = clusters(11)[:, :1]
    theirs, ours = pair(x, n_components=components, **form)
    assert_agree(theirs, ours, x)
    assert_same_bounds(theirs, ours, len(x))


def test_best_of_several_starts_agrees():
    x = clusters(2)
    theirs, ours = pair(x, n_components=5, n_init=4, init_params="random")
    assert ours.n_iter_ == theirs.n_iter_
    assert_agree(theirs, ours, x)


def test_no_iteration_is_the_start():
    x = clusters(3)
    theirs, ours = pair(x, n_components=5, max_iter=0)
    assert ours.n_iter_ == theirs.n_iter_ == 0
    assert ours.lower_bounds_ == theirs.lower_bounds_ == []
    assert_agree(theirs, ours, x)


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_warm_start_goes_on_as_scikit_learn_does(form):
    x = clusters(4)
    settings = {
        **form,
        "n_components": 5,
        "max_iter": 4,
        "tol": 0.0,
        "random_state": 0,
        "warm_start": True,
        "init_params": "random",
    }
    theirs = BayesianGaussianMixture(**settings)
    ours = WeightedBayesianGaussianMixture(**settings)
    for _ in range(2):
        with pytest.warns(ConvergenceWarning):
            theirs.fit(x)
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            ours.fit(x)
    assert_agree(theirs, ours, x)
    once = WeightedBayesianGaussianMixture(**{**settings, "max_iter": 8})
    with pytest.warns(ConvergenceWarning):
        once.fit(x)
    np.testing.assert_allclose(ours.means_, once.means_, rtol=1e-9)
    np.testing.assert_allclose(ours.lower_bounds_, once.lower_bounds_[4:], rtol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 3},
        {"covariance_type": "tied"},
        {"weight_concentration_prior_type": "dirichlet_distribution"},
    ],
)
def test_warm_start_with_another_form_is_refused_by_name(change):
    model = WeightedBayesianGaussianMixture(5, warm_start=True, max_iter=300).fit(clusters(4))
    with pytest.raises(ValueError, match=f"warm_start.*{next(iter(change))}"):
        model.set_params(**change).fit(clusters(4))


@pytest.mark.parametrize("settings", [*FORMS, *map(every_prior, FORMS)])
def test_whole_weights_are_copies_and_zero_is_absence(settings):
    x = clusters(5)
    random = np.random.default_rng(5)
    counts = random.integers(0, 3, size=len(x))  # as many copies as rows, about: the same programs
    first = random.dirichlet(np.ones(5), size=len(x))
    model = WeightedBayesianGaussianMixture(**{**settings, "n_components": 5}, max_iter=300)
    once = clone(model).set_params(init_params=first).fit(x, sample_weight=counts)
    first_copies = np.repeat(first, counts, axis=0)
    often = clone(model).set_params(init_params=first_copies).fit(np.repeat(x, counts, axis=0))
    assert once.n_iter_ == often.n_iter_
    assert_agree(often, once, x)
    np.testing.assert_allclose(once.lower_bound_, often.lower_bound_, rtol=1e-10)
    np.testing.assert_allclose(
        once.score(x, sample_weight=counts), often.score(np.repeat(x, counts, axis=0)), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("init_params", "form"), [*((start, {}) for start in STARTS), *(("kmeans", form) for form in FORMS[1:])]
)
def test_samples_without_weight_are_not_there(init_params, form):
    x = clusters(6)
    weights = np.random.default_rng(6).exponential(size=len(x))
    far = np.full((20, 3), 1e5)
    model = WeightedBayesianGaussianMixture(5, init_params=init_params, random_state=1, max_iter=300, **form)
    alone = clone(model).fit(x, sample_weight=weights)
    among = clone(model).fit(np.concatenate([far, x]), sample_weight=np.concatenate([np.zeros(20), weights]))
    assert_agree(alone, among, x)


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_bound_rises_with_every_iteration(form):
    x = clusters(7)
    weights = np.random.default_rng(7).exponential(size=len(x))
    model = WeightedBayesianGaussianMixture(
        5, reg_covar=0.0, max_iter=25, tol=0.0, init_params="random", random_state=0, **form
    )
    with pytest.warns(ConvergenceWarning):
        bounds = model.fit(x, sample_weight=weights).lower_bounds_
    assert len(bounds) == 25
    assert np.min(np.diff(bounds)) > -1e-8
    assert bounds[-1] > bounds[0] + 1


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_order_of_weighted_samples_does_not_matter(form):
    x = clusters(12)
    random = np.random.default_rng(12)
    weights, first = random.exponential(size=len(x)), random.dirichlet(np.ones(5), size=len(x))
    order = random.permutation(len(x))
    model = WeightedBayesianGaussianMixture(5, max_iter=300, **form)  # as many as elsewhere here
    straight = clone(model).set_params(init_params=first).fit(x, sample_weight=weights)
    mixed = clone(model).set_params(init_params=first[order]).fit(x[order], sample_weight=weights[order])
    assert_agree(straight, mixed, x)


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_samples_come_from_the_mixture(covariance_type):
    x = clusters(8) / [1.0, 10.0, 0.1]
    model = WeightedBayesianGaussianMixture(5, covariance_type=covariance_type, random_state=0, max_iter=300).fit(x)
    points, labels = model.sample(20_000)
    assert points.shape == (20_000, 3)
    np.testing.assert_allclose(np.bincount(labels, minlength=5) / 20_000, model.weights_, atol=0.02)
    often = np.flatnonzero(model.weights_ > 0.05)  # the others have too few points to compare
    assert len(often) >= 4
    for o in often:
        covariance = model.covariances_ if covariance_type == "tied" else model.covariances_[o]
        if np.ndim(covariance) < 2:
            covariance = np.diag(np.broadcast_to(covariance, 3))
        deviation = np.sqrt(np.diag(covariance))
        mine = (points[labels == o] - model.means_[o]) / deviation
        np.testing.assert_allclose(mine.mean(axis=0), 0.0, atol=0.1)
        np.testing.assert_allclose(np.cov(mine.T), covariance / np.outer(deviation, deviation), atol=0.12)


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_says_the_same_as_scikit_learn(verbose, capsys):
    """But for times, and the terms of the bound that scikit-learn leaves out."""
    settings = {"n_components": 5, "n_init": 2, "init_params": "random", "random_state": 0, "max_iter": 12}
    said = []
    for kind in (BayesianGaussianMixture, WeightedBayesianGaussianMixture):
        with pytest.warns(ConvergenceWarning):
            kind(verbose=verbose, verbose_interval=5, **settings).fit(clusters(13))
        text = re.sub(r"time lapse [\d.]+s", "time lapse", capsys.readouterr().out)
        said.append(re.sub(r"lower bound -?[\d.]+\.", "lower bound", text))
    assert said[0] == said[1]
    assert said[1].count("Iteration 5") == (2 if verbose else 0)


@pytest.mark.parametrize(
    ("settings", "weights", "message"),
    [
        ({"degrees_of_freedom_prior": 1.5}, None, "degrees_of_freedom_prior should be greater than 2"),
        ({"mean_prior": [0.0]}, None, "mean_prior.*shape"),
        ({"covariance_prior": -np.eye(3)}, None, "covariance_prior.*positive-definite"),
        ({"covariance_prior": np.ones(3)}, None, "covariance_prior.*shape"),
        ({"covariance_prior": 2.0}, None, "covariance_prior.*shape"),
        ({"covariance_prior": [1, 1, 0], "covariance_type": "diag"}, None, "covariance_prior.*positive"),
        ({"covariance_prior": np.eye(3), "covariance_type": "diag"}, None, "covariance_prior.*shape"),
        ({"covariance_prior": np.eye(3), "covariance_type": "spherical"}, None, "covariance_prior.*shape"),
        ({"covariance_prior": -1.0, "covariance_type": "spherical"}, None, "covariance_prior"),
        ({"covariance_type": "round"}, None, "'covariance_type' parameter.*'round'"),
        ({"weight_concentration_prior_type": "flat"}, None, "'weight_concentration_prior_type' parameter.*'flat'"),
        ({"verbose": "loud"}, None, "'verbose' parameter.*'loud'"),
        ({"verbose_interval": 0}, None, "'verbose_interval' parameter.*0"),
        ({"init_params": np.ones((7, 2))}, None, "init_params.*shape"),
        ({"n_components": 3}, [1.0] * 2 + [0.0] * 8, "n_components = 3, n_samples = 2"),
        ({}, [-1.0] * 10, "[Nn]egative"),
        ({"reg_covar": 0.0}, [1.0] + [0.0] * 9, "not positive definite"),
        ({"reg_covar": 0.0, "covariance_type": "tied"}, [1.0] + [0.0] * 9, "not positive definite"),
        ({"reg_covar": 0.0, "covariance_type": "diag"}, [1.0] + [0.0] * 9, "not positive definite"),
        ({"reg_covar": 0.0, "covariance_type": "spherical"}, [1.0] + [0.0] * 9, "not positive definite"),
    ],
)
def test_wrong_input_says_what_is_wrong(settings, weights, message):
    with pytest.raises(ValueError, match=message):
        WeightedBayesianGaussianMixture(**settings).fit(clusters(9, n=10), sample_weight=weights)


def test_sample_needs_a_positive_number():
    model = WeightedBayesianGaussianMixture().fit(clusters(10))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        model.sample(0)


def test_without_scikit_learn_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try:\n    import hpsde.sklearn\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LONG)
    assert "hpsde[sklearn]" in done.stdout
