"""The weighted variational mixture as an estimator with scikit-learn's conventions (extra `sklearn`)."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.precision import double_precision
from hpsde.mixture import estimation as density
from hpsde.mixture.climb import ClimbControl, Result, from_mixture, from_responsibilities
from hpsde.mixture.posterior import Mixture, MixturePrior
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

_e_step = jax.jit(density.e_step)


class WeightedBayesianGaussianMixture(DensityMixin, BaseEstimator):
    """Variational Bayesian Gaussian mixture whose samples have weights.

    With unit weights and from the same start it is scikit-learn's ``BayesianGaussianMixture`` with full
    covariances and a Dirichlet prior. A sample weight is a count: weight 2 is the sample twice, weight 0 is
    no sample, so the sum of the weights, not their number, says how much the data weigh against the prior.

    Parameters
    ----------
    n_components : int, default=1
        Largest number of components.
    tol : float, default=1e-3
        The iteration stops when the lower bound changes by less than this.
    reg_covar : float, default=1e-6
        Added to the diagonal of the components' covariances.
    max_iter : int, default=100
        Largest number of iterations.
    n_init : int, default=1
        Number of starts; the one with the highest lower bound is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'} or array-like of shape \
            (n_samples, n_components), default='kmeans'
        How the responsibilities of the first step are made, or these themselves.
    weight_concentration_prior : float, default=None
        alpha_0 of the Dirichlet prior on the mixing weights; 1 / n_components if None.
    mean_precision_prior : float, default=None
        beta_0, the precision of the prior on the means; 1 if None.
    mean_prior : array-like of shape (n_features,), default=None
        h_0; the weighted mean of the data if None.
    degrees_of_freedom_prior : float, default=None
        nu_0 of the Wishart prior; n_features if None.
    covariance_prior : array-like of shape (n_features, n_features), default=None
        The inverse of the Wishart prior's scale; the weighted covariance of the data if None.
    random_state : int, RandomState instance or None, default=None
        Source of the random starts and of ``sample``.
    warm_start : bool, default=False
        Whether a further ``fit`` begins where the last one ended.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Expected mixing weights.
    means_ : ndarray of shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray of shape (n_components, n_features, n_features)
    weight_concentration_, mean_precision_, degrees_of_freedom_ : ndarray of shape (n_components,)
        alpha, beta and nu of the posterior.
    converged_ : bool
    n_iter_ : int
    lower_bound_ : float
        Lower bound on the log evidence with all its terms. scikit-learn's leaves out those that do not change
        during a fit: the prior's normalisers and powers of 2 pi.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where the names of all features were strings.
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "k-means++", "random", "random_from_data"}), "array-like"],
        "weight_concentration_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_precision_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_prior": [None, "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "covariance_prior": [None, "array-like"],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        n_components: Any = 1,
        *,
        tol: Any = 1e-3,
        reg_covar: Any = 1e-6,
        max_iter: Any = 100,
        n_init: Any = 1,
        init_params: Any = "kmeans",
        weight_concentration_prior: Any = None,
        mean_precision_prior: Any = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: Any = None,
        covariance_prior: Any = None,
        random_state: Any = None,
        warm_start: Any = False,
    ):
        # scikit-learn's convention: anything may be set, `fit` checks it
        self.n_components = n_components
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.random_state = random_state
        self.warm_start = warm_start

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
        results = self._climb(points, counts, present)
        best = max(results, key=lambda result: float(result.bound))
        self._keep(best)
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
        factors = np.linalg.cholesky(self.covariances_)
        return self.means_[labels] + np.einsum("nij,nj->ni", factors[labels], noise), labels

    # ------------------------------------------------------------ behind the conventions

    def _check(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    @double_precision
    def _e_step(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = pad_rows(X, _rows(len(X)))
        log_eta, normaliser = _e_step(self._mixture(), jnp.asarray(rows))
        return np.asarray(log_eta)[: len(X)], np.asarray(normaliser)[: len(X)]

    def _mixture(self) -> Mixture:
        nu = self.degrees_of_freedom_
        mass = self.weight_concentration_ - self.weight_concentration_prior_
        fields = self.weight_concentration_, self.mean_precision_, self.means_, nu
        return Mixture(*map(jnp.asarray, (*fields, self.covariances_ * nu[:, None, None], mass)))

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
        offset = X - mean
        # the denominator that whole samples have; weights that sum to less than 2 keep half their sum
        covariance = (weights * offset.T) @ offset / max(total - 1, total / 2)
        self.covariance_prior_ = _array("covariance_prior", self.covariance_prior, (size, size), covariance)
        if self.covariance_prior is not None:
            symmetric = np.allclose(self.covariance_prior_, self.covariance_prior_.T)
            if not symmetric or np.any(np.linalg.eigvalsh(self.covariance_prior_) <= 0):
                raise ValueError("covariance_prior should be symmetric, positive-definite")

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
    def _climb(self, X: np.ndarray, weights: np.ndarray, present: np.ndarray) -> list[Result]:
        """One result for each start."""
        rows = _rows(len(X))
        x, counts = jnp.asarray(pad_rows(X, rows)), jnp.asarray(pad_rows(weights, rows))
        prior = MixturePrior(
            *(
                jnp.asarray(value, float)
                for value in (
                    self.weight_concentration_prior_,
                    self.mean_precision_prior_,
                    self.degrees_of_freedom_prior_,
                    self.mean_prior_,
                    self.covariance_prior_,
                )
            )
        )
        if self.warm_start and hasattr(self, "converged_"):
            control = ClimbControl(self.reg_covar, self.max_iter, self.tol)
            return [from_mixture(x, counts, prior, self._mixture(), self.lower_bound_, control)]
        control = ClimbControl(self.reg_covar, self.max_iter + 1, self.tol)  # the start is one M-step
        random = check_random_state(self.random_state)
        results = []
        for _ in range(self.n_init):
            eta = pad_rows(self._responsibilities(X, weights, present, random), rows)
            results.append(from_responsibilities(x, counts, prior, jnp.asarray(eta), control))
        return [result._replace(iterations=result.iterations - 1) for result in results]

    def _keep(self, result: Result) -> None:
        mixture = jax.tree.map(np.asarray, result.mixture)
        if not all(np.all(np.isfinite(field)) for field in mixture):
            raise ValueError(
                "A component's covariance is not positive definite (few or equal samples): "
                "decrease n_components, increase reg_covar, or scale the features"
            )
        self.weight_concentration_ = mixture.alpha
        self.mean_precision_ = mixture.beta
        self.means_ = mixture.h
        self.degrees_of_freedom_ = mixture.nu
        self.covariances_ = mixture.K_inverse / mixture.nu[:, None, None]
        self.weights_ = mixture.alpha / mixture.alpha.sum()
        identity = np.eye(self.means_.shape[1])
        factors = np.linalg.cholesky(self.covariances_)
        self.precisions_cholesky_ = np.stack([solve_triangular(L, identity, lower=True).T for L in factors])
        self.precisions_ = self.precisions_cholesky_ @ np.swapaxes(self.precisions_cholesky_, 1, 2)
        self.lower_bound_ = float(result.bound)
        self.converged_ = bool(result.converged)
        self.n_iter_ = int(result.iterations)


def _default(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _array(name: str, value: Any, shape: tuple[int, ...], otherwise: np.ndarray | None) -> np.ndarray:
    if value is None and otherwise is not None:
        return otherwise
    array = check_array(value, dtype=np.float64, ensure_2d=False, input_name=name)
    if array.shape != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}")
    return array


def _rows(n: int) -> int:
    """Rows to compile for: few sizes while they are small, whole chunks beyond."""
    return padded_size(max(n, 256)) if n <= CHUNK else -(-n // CHUNK) * CHUNK
