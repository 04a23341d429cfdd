"""The weighted variational mixture as an estimator with scikit-learn's conventions (extra `sklearn`)."""

from __future__ import annotations

import time
import warnings
from itertools import islice
from numbers import Integral, Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.precision import double_precision
from hpsde.mixture.climb import climb, e_step, from_responsibilities
from hpsde.mixture.forms import (
    COVARIANCES,
    WEIGHT_PRIORS,
    Form,
    FormedMixture,
    FormedPrior,
    mixing,
    per_component,
    precision_factors,
)
from hpsde.mixture.search import CHUNK

try:
    from sklearn.base import BaseEstimator, DensityMixin, _fit_context
    from sklearn.cluster import KMeans, kmeans_plusplus
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_array, check_random_state
    from sklearn.utils._param_validation import Interval, StrOptions
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("hpsde.sklearn needs scikit-learn: pip install 'hpsde[sklearn]'") from error

__all__ = ["WeightedBayesianGaussianMixture"]


class _Climbed(NamedTuple):
    """How one start ended."""

    mixture: FormedMixture
    bounds: list[float]  # after every iteration
    converged: bool

    @property
    def bound(self) -> float:
        return self.bounds[-1] if self.bounds else -np.inf


class WeightedBayesianGaussianMixture(DensityMixin, BaseEstimator):
    """Variational Bayesian Gaussian mixture whose samples have weights.

    With unit weights and from the same start it is scikit-learn's ``BayesianGaussianMixture``, whose arguments and
    defaults it has. A sample weight is a count: weight 2 is the sample twice, weight 0 is no sample, so the sum of
    the weights, not their number, says how much the data weigh against the prior.

    One difference: with tied covariances and a start from single samples ('k-means++' or 'random_from_data'),
    scikit-learn's first covariance has the squares of all samples in it, so that where it ends depends on where the
    origin lies. Here it is that of the samples chosen.

    Parameters
    ----------
    n_components : int, default=1
        Largest number of components.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
        A matrix for each component, one matrix for all, a diagonal for each, or one variance for each.
    tol : float, default=1e-3
        The iteration stops when the lower bound changes by less than this.
    reg_covar : float, default=1e-6
        Added to the variances of the components.
    max_iter : int, default=100
        Largest number of iterations.
    n_init : int, default=1
        Number of starts; the one with the highest lower bound is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'} or array-like of shape \
            (n_samples, n_components), default='kmeans'
        How the responsibilities of the first step are made, or these themselves.
    weight_concentration_prior_type : {'dirichlet_process', 'dirichlet_distribution'}, default='dirichlet_process'
        The prior on the mixing weights: sticks broken one after the other (as many as there are components), or a
        Dirichlet distribution, under which the order of the components does not matter.
    weight_concentration_prior : float, default=None
        alpha_0 of that prior; 1 / n_components if None.
    mean_precision_prior : float, default=None
        beta_0, the precision of the prior on the means; 1 if None.
    mean_prior : array-like of shape (n_features,), default=None
        h_0; the weighted mean of the data if None.
    degrees_of_freedom_prior : float, default=None
        nu_0 of the Wishart prior; n_features if None.
    covariance_prior : float or array-like, default=None
        The inverse of the Wishart prior's scale: of shape (n_features, n_features) if 'full' or 'tied', (n_features,)
        if 'diag', a number if 'spherical'. If None, the weighted covariance of the data, its diagonal, or the mean of
        that.
    random_state : int, RandomState instance or None, default=None
        Source of the random starts and of ``sample``.
    warm_start : bool, default=False
        Whether a further ``fit`` begins where the last one ended.
    verbose : int, default=0
        1 prints starts and iterations, 2 also times, changes of the lower bound and the bounds.
    verbose_interval : int, default=10
        Iterations from one line to the next.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Expected mixing weights.
    means_ : ndarray of shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Of shape (n_components, n_features, n_features) if 'full', (n_features, n_features) if 'tied',
        (n_components, n_features) if 'diag', (n_components,) if 'spherical'.
    weight_concentration_ : ndarray of shape (n_components,), or a tuple of two
        alpha of the posterior; under a Dirichlet process the two numbers of each stick's Beta distribution.
    mean_precision_ : ndarray of shape (n_components,)
        beta of the posterior.
    degrees_of_freedom_ : ndarray of shape (n_components,), or a number if 'tied'
        nu of the posterior.
    converged_ : bool
    n_iter_ : int
    lower_bound_ : float
        Lower bound on the log evidence with all its terms. scikit-learn's leaves out those that do not change
        during a fit: the prior's normalisers and powers of 2 pi. With covariances that are not full it is, here as
        there, the function that the iteration climbs, not strictly a bound.
    lower_bounds_ : list of float
        ``lower_bound_`` after every iteration of the best start.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where the names of all features were strings.
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions(set(COVARIANCES))],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "k-means++", "random", "random_from_data"}), "array-like"],
        "weight_concentration_prior_type": [StrOptions(set(WEIGHT_PRIORS))],
        "weight_concentration_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_precision_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_prior": [None, "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "covariance_prior": [None, "array-like", Interval(Real, 0.0, None, closed="neither")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: Any = 1,
        *,
        covariance_type: Any = "full",
        tol: Any = 1e-3,
        reg_covar: Any = 1e-6,
        max_iter: Any = 100,
        n_init: Any = 1,
        init_params: Any = "kmeans",
        weight_concentration_prior_type: Any = "dirichlet_process",
        weight_concentration_prior: Any = None,
        mean_precision_prior: Any = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: Any = None,
        covariance_prior: Any = None,
        random_state: Any = None,
        warm_start: Any = False,
        verbose: Any = 0,
        verbose_interval: Any = 10,
    ):
        # scikit-learn's convention: anything may be set, `fit` checks it
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> WeightedBayesianGaussianMixture:
        """Fit the mixture to samples X (n_samples, n_features) with weights (n_samples,), all 1 if None."""
        self.fit_predict(X, y, sample_weight)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit as `fit` does, and return the likeliest component of every sample."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        present = weights > 0
        if present.sum() < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {present.sum()} with a weight above 0"
            )
        points, counts = X[present], weights[present]
        self._check_prior(points, counts)
        self._keep(self._best(points, counts, present))
        if not self.converged_ and self.max_iter > 0:
            warnings.warn(
                "The best start did not converge: try other init_params, or increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self._e_step(X)[0].argmax(axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest component of every sample (n_samples,)."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Responsibility of every component for every sample (n_samples, n_components)."""
        return np.exp(self._e_step(self._check(X))[0])

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of every sample (n_samples,), with scikit-learn's variational expectations."""
        return self._e_step(self._check(X))[1]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Weighted mean of the log densities of the samples."""
        return float(np.average(self.score_samples(X), weights=sample_weight))

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """New samples (n_samples, n_features) and their components (n_samples,), component by component."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples}")
        generator = check_random_state(self.random_state)
        labels = np.repeat(np.arange(len(self.weights_)), generator.multinomial(n_samples, self.weights_))
        noise = generator.standard_normal((n_samples, self.means_.shape[1]))
        if not self._form.matrices:
            deviations = np.sqrt(self.covariances_).reshape(len(self.weights_), -1)
            return self.means_[labels] + deviations[labels] * noise, labels
        matrices = np.broadcast_to(self.covariances_, (len(self.weights_), *self.covariances_.shape[-2:]))
        factors = np.linalg.cholesky(matrices)
        return self.means_[labels] + np.einsum("nij,nj->ni", factors[labels], noise), labels

    # ------------------------------------------------------------ behind the conventions

    def _check(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    @double_precision
    def _e_step(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = pad_rows(X, _rows(len(X)))
        log_eta, normaliser = e_step(self._form, self._posterior(), jnp.asarray(rows))
        return np.asarray(log_eta)[: len(X)], np.asarray(normaliser)[: len(X)]

    def _posterior(self) -> FormedMixture:
        nu = np.asarray(self.degrees_of_freedom_)
        scale = self.covariances_ * per_component(nu, self.covariances_)
        fields = np.asarray(self.weight_concentration_), self.mean_precision_, self.means_, nu, scale
        return FormedMixture(*map(jnp.asarray, fields))

    def _check_prior(self, X: np.ndarray, weights: np.ndarray) -> None:
        """Set the attributes of the prior, in scikit-learn's names."""
        size = X.shape[1]
        total = weights.sum()
        mean = weights @ X / total
        self.weight_concentration_prior_ = _default(self.weight_concentration_prior, 1.0 / self.n_components)
        self.mean_precision_prior_ = _default(self.mean_precision_prior, 1.0)
        self.degrees_of_freedom_prior_ = _default(self.degrees_of_freedom_prior, float(size))
        if self.degrees_of_freedom_prior_ <= size - 1:
            raise ValueError(
                f"degrees_of_freedom_prior should be greater than {size - 1}, but got {self.degrees_of_freedom_prior_}"
            )
        self.mean_prior_ = _array("mean_prior", self.mean_prior, (size,), mean)
        self.covariance_prior_ = self._covariance_prior(X - mean, weights)

    def _covariance_prior(self, offset: np.ndarray, weights: np.ndarray) -> Any:
        total, size = weights.sum(), offset.shape[1]
        # the denominator that whole samples have; weights that sum to less than 2 keep half their sum
        covariance = (weights * offset.T) @ offset / max(total - 1, total / 2)
        if self.covariance_type == "spherical":
            covariance = covariance.trace() / size
        elif self.covariance_type == "diag":
            covariance = covariance.diagonal().copy()
        if self.covariance_prior is None:
            return covariance
        given = _array("covariance_prior", self.covariance_prior, np.shape(covariance), None)
        if given.ndim == 2:
            if not np.allclose(given, given.T) or np.any(np.linalg.eigvalsh(given) <= 0):
                raise ValueError("covariance_prior should be symmetric, positive-definite")
        elif np.any(given <= 0):
            raise ValueError(f"covariance_prior should be positive, got {given}")
        return given

    def _responsibilities(
        self, X: np.ndarray, weights: np.ndarray, present: np.ndarray, random: np.random.RandomState
    ) -> np.ndarray:
        """The first responsibilities (n_samples, n_components), drawn as scikit-learn draws them."""
        shape = len(X), self.n_components
        if not isinstance(self.init_params, str):
            given = _array("init_params", self.init_params, (len(present), self.n_components), None)
            return given[present]
        if self.init_params == "random":
            eta = random.uniform(size=shape)
            return eta / eta.sum(axis=1, keepdims=True)
        eta = np.zeros(shape)
        if self.init_params == "kmeans":
            means = KMeans(self.n_components, n_init=1, random_state=random).fit(X, sample_weight=weights)
            eta[np.arange(len(X)), means.labels_] = 1
            return eta
        if self.init_params == "random_from_data":
            seeds = random.choice(len(X), size=self.n_components, replace=False)
        else:
            _, seeds = kmeans_plusplus(X, self.n_components, sample_weight=weights, random_state=random)
        eta[seeds, np.arange(self.n_components)] = 1
        return eta

    @double_precision
    def _best(self, X: np.ndarray, weights: np.ndarray, present: np.ndarray) -> _Climbed:
        """The start that came highest."""
        rows = _rows(len(X))
        x, counts = jnp.asarray(pad_rows(X, rows)), jnp.asarray(pad_rows(weights, rows))
        data = x, counts, self._prior()
        form = Form(self.covariance_type, self.weight_concentration_prior_type)
        if self.warm_start and hasattr(self, "converged_"):
            self._check_warm(form, X.shape[1])
            return self._climb(data, self._posterior(), self.lower_bound_)
        self._form = form
        random = check_random_state(self.random_state)
        results = []
        for start in range(self.n_init):
            eta = jnp.asarray(pad_rows(self._responsibilities(X, weights, present, random), rows))
            results.append(self._climb(data, from_responsibilities(form, *data, eta, self.reg_covar), -np.inf, start))
        return max(results, key=lambda result: result.bound)

    def _prior(self) -> FormedPrior:
        fields = (
            self.weight_concentration_prior_,
            self.mean_precision_prior_,
            self.degrees_of_freedom_prior_,
            self.mean_prior_,
            self.covariance_prior_,
        )
        return FormedPrior(*(jnp.asarray(field, float) for field in fields))

    def _check_warm(self, form: Form, size: int) -> None:
        """What was learned must be of the kind that is asked for now."""
        now = {
            "covariance_type": (self._form.covariance, form.covariance),
            "weight_concentration_prior_type": (self._form.weights, form.weights),
            "n_components": (len(self.means_), self.n_components),
            "n_features": (self.means_.shape[1], size),
        }
        for name, (before, wanted) in now.items():
            if before != wanted:
                raise ValueError(f"warm_start cannot go on with {name} = {wanted!r} where it was {before!r}")

    def _climb(
        self, data: tuple[Any, Any, FormedPrior], mixture: FormedMixture, last: float, start: int = 0
    ) -> _Climbed:
        """Iterate until the bound, now `last`, changes by less than `tol`, or `max_iter` times."""
        say = _Progress(self.verbose, self.verbose_interval, start)
        bounds: list[float] = []
        converged = False
        iterations = climb(self._form, *data, mixture, self.reg_covar)
        for now, bound in islice(iterations, self.max_iter):
            mixture = now
            bounds.append(float(bound))
            change, last = bounds[-1] - last, bounds[-1]
            say.iteration(len(bounds), change)
            converged = abs(change) < self.tol
            if converged or np.isnan(change):
                break
        if bounds:
            say.end(last, converged)
        return _Climbed(mixture, bounds, converged)

    def _keep(self, result: _Climbed) -> None:
        mixture = jax.tree.map(np.asarray, result.mixture)
        covariances = mixture.scale / per_component(mixture.nu, mixture.scale)
        finite = all(np.all(np.isfinite(field)) for field in mixture)
        factors = precision_factors(covariances, self._form.matrices) if finite else None
        if factors is None:
            raise ValueError(
                "A component's covariance is not positive definite (few or equal samples): "
                "decrease n_components, increase reg_covar, or scale the features"
            )
        alpha = mixture.alpha
        self.weight_concentration_ = alpha if alpha.ndim == 1 else tuple(alpha)
        self.mean_precision_ = mixture.beta
        self.means_ = mixture.h
        self.degrees_of_freedom_ = mixture.nu if mixture.nu.ndim else float(mixture.nu)
        self.covariances_ = covariances
        self.weights_ = mixing(self._form, alpha)
        self.precisions_cholesky_ = factors
        self.precisions_ = factors @ np.swapaxes(factors, -1, -2) if self._form.matrices else factors**2
        self.lower_bound_: float = result.bound
        self.lower_bounds_ = result.bounds
        self.converged_ = result.converged
        self.n_iter_ = len(result.bounds)


class _Progress:
    """Prints how a start goes, in scikit-learn's words."""

    def __init__(self, verbose: int, interval: int, start: int):
        self.verbose, self.interval = int(verbose), interval
        self.begun = self.last = time.perf_counter()
        if self.verbose:
            print(f"Initialization {start}")

    def iteration(self, number: int, change: float) -> None:
        if not self.verbose or number % self.interval:
            return
        now = time.perf_counter()
        more = f"\t time lapse {now - self.last:.5f}s\t ll change {change:.5f}" if self.verbose > 1 else ""
        print(f"  Iteration {number}{more}")
        self.last = now

    def end(self, bound: float, converged: bool) -> None:
        if not self.verbose:
            return
        spent = time.perf_counter() - self.begun
        more = f" time lapse {spent:.5f}s\t lower bound {bound:.5f}." if self.verbose > 1 else ""
        print(f"Initialization {'converged' if converged else 'did not converge'}.{more}")


def _default(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _array(name: str, value: Any, shape: tuple[int, ...], otherwise: np.ndarray | None) -> np.ndarray:
    if value is None and otherwise is not None:
        return otherwise
    if np.shape(value) != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {np.shape(value)}")
    array = check_array(np.atleast_1d(value), dtype=np.float64, ensure_2d=False, input_name=name)
    return array.reshape(shape)


def _rows(n: int) -> int:
    """Rows to compile for: few sizes while they are small, whole chunks beyond."""
    return padded_size(max(n, 256)) if n <= CHUNK else -(-n // CHUNK) * CHUNK
