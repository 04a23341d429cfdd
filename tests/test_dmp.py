"""Movement primitives against explicit loops, continuous integration, closed forms and another library."""

import math

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

from hpsde.errors import InputError
from hpsde.tasks.dmp import DMP, SteppedDMP


def normal(seed, scale, shape):
    return np.random.default_rng(seed).normal(0.0, scale, shape)


# The standard form


def force(dmp, parameters, time):
    """f(z) at time t / tau, straight from the equations."""
    decay = -math.log(dmp.last_phase)
    z = math.exp(-decay * time)
    centres = [math.exp(-decay * j / (dmp.bases - 1)) for j in range(dmp.bases)]
    psi = []
    for j, centre in enumerate(centres):
        gap = centres[j + 1] - centre if j + 1 < dmp.bases else centre - centres[j - 1]
        psi.append(dmp.overlap ** (((z - centre) / gap) ** 2))
    return z * sum(p * x for p, x in zip(psi, parameters, strict=True)) / sum(psi)


def integrated(dmp, parameters, goal, start, velocity):
    """One dimension of a trajectory by scipy, in the time of the clock."""
    tau, beta = dmp.duration, dmp.alpha / 4 if dmp.beta is None else dmp.beta
    amplitude = goal - start if dmp.scaled else 1.0

    def slope(t, state):
        y, v = state
        pull = dmp.alpha * (beta * (goal - y) - tau * v)
        return v, (pull + amplitude * force(dmp, parameters, t / tau)) / tau**2

    solved = scipy.integrate.solve_ivp(
        slope, (0.0, tau), (start, velocity), t_eval=np.linspace(0.0, tau, dmp.steps), rtol=1e-10, atol=1e-12
    )
    return solved.y[0]


@pytest.mark.parametrize(
    "dmp",
    [
        DMP(2, bases=5, steps=30),
        DMP(2, bases=3, steps=20, duration=2.5, alpha=40.0, beta=4.0, last_phase=0.05, overlap=0.5, scaled=False),
    ],
)
def test_trajectories_are_those_of_the_differential_equation(dmp):
    parameters = normal(0, 100.0, (2, dmp.parameter_size))
    goal, start, velocity = np.array([[3.0, -1.0], [0.5, 7.0]]), np.array([1.0, 2.0]), np.array([0.4, -0.3])
    routes = dmp.rollout(parameters, goal=goal, start=start, velocity=velocity)
    assert routes.shape == (2, dmp.steps, 2)
    for n, route in enumerate(routes):
        for d, xi in enumerate(parameters[n].reshape(2, -1)):
            truth = integrated(dmp, xi, goal[n, d], start[d], velocity[d])
            np.testing.assert_allclose(route[:, d], truth, atol=1e-8)
    np.testing.assert_allclose(dmp.times, np.linspace(0.0, dmp.duration, dmp.steps))


def test_without_force_a_critically_damped_spring_goes_to_the_goal():
    dmp = DMP(1, alpha=20.0, steps=50)
    route = dmp.rollout(np.zeros((1, 10)), goal=4.0, start=1.0)[0, :, 0]
    t = dmp.times
    np.testing.assert_allclose(route, 4.0 - 3.0 * (1.0 + 10.0 * t) * np.exp(-10.0 * t), atol=1e-13)


@settings(max_examples=20, deadline=None)
@given(st.floats(-5, 5), st.floats(0.1, 5), st.floats(0.5, 3.0))
def test_scaled_movements_keep_their_shape(shift, scale, duration):
    parameters = np.linspace(-200.0, 300.0, 10)[None]
    once = DMP(1, steps=20).rollout(parameters, goal=1.0, velocity=0.5)
    again = DMP(1, steps=20, duration=duration).rollout(
        parameters, goal=shift + scale, start=shift, velocity=scale * 0.5 / duration
    )
    np.testing.assert_allclose(again, shift + scale * once, atol=1e-10)


def test_a_movement_of_the_primitive_is_fitted_by_its_own_parameters():
    dmp = DMP(2, bases=6, steps=80)
    parameters = normal(1, 100.0, (1, 12))
    route = dmp.rollout(parameters, goal=[1.0, -2.0], start=[0.5, 3.0], velocity=[0.2, 0.1])[0]
    # The primitive has not quite arrived at its goal: the demonstration is moved there.
    route[-1] = [1.0, -2.0]
    fitted = dmp.fit(route, velocity=[0.2, 0.1], ridge=1e-12)
    again = dmp.rollout(fitted[None], goal=[1.0, -2.0], start=[0.5, 3.0], velocity=[0.2, 0.1])[0]
    np.testing.assert_allclose(again[:-1], route[:-1], atol=0.05)


@pytest.mark.parametrize("scaled", [True, False])
def test_demonstrations_are_followed_and_generalise(scaled):
    t = np.linspace(0.0, 1.0, 150)
    smooth = 10 * t**3 - 15 * t**4 + 6 * t**5
    demonstration = np.stack([2.0 * smooth, smooth + 0.5 * np.sin(np.pi * t) ** 3], axis=1)
    dmp = DMP(2, bases=15, scaled=scaled)
    parameters = dmp.fit(demonstration)
    route = dmp.rollout(parameters[None], goal=[2.0, 1.0])[0]
    wanted = np.stack([np.interp(dmp.times, t, demonstration[:, d]) for d in range(2)], axis=1)
    np.testing.assert_allclose(route, wanted, atol=0.01)
    elsewhere = dmp.rollout(parameters[None], goal=[4.0, 2.0])[0]
    np.testing.assert_allclose(elsewhere[-1], [4.0, 2.0], atol=0.02)
    assert np.allclose(elsewhere, 2.0 * wanted, atol=0.02) == scaled


def test_movement_primitives_agrees():
    """Its Euler steps, taken to be small, on the same equations without amplitude scaling."""
    module = pytest.importorskip("movement_primitives.dmp")
    theirs = module.DMP(n_dims=2, execution_time=2.0, dt=0.001, n_weights_per_dim=7, int_dt=0.001)
    weights = normal(2, 500.0, (2, 7))
    theirs.set_weights(weights.ravel())
    theirs.configure(start_y=np.array([0.5, -1.0]), goal_y=np.array([2.0, 3.0]))
    _, positions = theirs.open_loop(step_function="euler")
    ours = DMP(2, bases=7, steps=2001, duration=2.0, scaled=False)
    routes = ours.rollout(weights.reshape(1, -1), goal=[2.0, 3.0], start=[0.5, -1.0])[0]
    np.testing.assert_allclose(routes, positions[: len(routes)], atol=0.01)
    unforced = ours.rollout(np.zeros((1, 14)), goal=[2.0, 3.0], start=[0.5, -1.0])[0]
    assert np.abs(routes - unforced).max(axis=0).min() > 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": 0}, "dimensions must be a whole number of at least 1; got 0"),
        ({"bases": 1}, "bases"),
        ({"steps": 1}, "steps"),
        ({"duration": 0.0}, "duration must be a positive number; got 0.0"),
        ({"alpha": math.nan}, "alpha"),
        ({"beta": -1.0}, "beta"),
        ({"last_phase": 1.0}, "last_phase must lie between 0 and 1"),
        ({"overlap": 0.0}, "overlap"),
    ],
)
def test_impossible_primitives_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        DMP(**({"dimensions": 1} | change))


def test_unfit_arguments_are_refused():
    dmp = DMP(2, bases=3)
    parameters = np.zeros((4, 6))
    with pytest.raises(InputError, match=r"parameters must have shape \[N, 6\]; got \[4, 5\]"):
        dmp.rollout(parameters[:, :5], goal=1.0)
    with pytest.raises(InputError, match=r"goal must have shape \[\], \[2\] or \[4, 2\]; got \[3\]"):
        dmp.rollout(parameters, goal=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="start must be finite"):
        dmp.rollout(parameters, goal=1.0, start=[0.0, math.inf])
    with pytest.raises(InputError, match="at least 2 points; got 1"):
        dmp.fit([[1.0, 2.0]])
    with pytest.raises(InputError, match=r"demonstration must have shape \[N, 2\]"):
        dmp.fit(np.zeros((5, 3)))
    with pytest.raises(InputError, match="dimension 1 does not"):
        dmp.fit([[0.0, 1.0], [1.0, 3.0], [2.0, 1.0]])
    with pytest.raises(InputError, match="ridge"):
        dmp.fit([[0.0, 1.0], [1.0, 3.0]], ridge=0.0)
    assert dmp.rollout(parameters[:0], goal=1.0).shape == (0, 100, 2)


# The form defined by its steps


def stepped(dmp, parameters, goal, start, velocity):
    """One trajectory, step by step."""
    dt, y, v, positions = 1.0 / (dmp.steps - 1), start, velocity, []
    for i in range(1, dmp.most_steps + 1):
        f = 0.0
        if i <= dmp.steps:
            at = (i - 1) / (dmp.steps - 1)
            psi = [math.exp(-0.5 * ((at - j / (dmp.bases - 1)) / dmp.width) ** 2) for j in range(dmp.bases)]
            f = sum(p * x for p, x in zip(psi, parameters, strict=True)) / sum(psi) * math.exp(-5 * i / dmp.steps)
        y, v = y + dt * v, v + dt * (dmp.stiffness * (goal - y) - dmp.damping * v + f)
        positions.append(y)
        if i > dmp.steps and abs(goal - y) < dmp.tolerance:
            break
    return np.array(positions)


@pytest.mark.parametrize(
    "dmp", [SteppedDMP(), SteppedDMP(4, steps=40, most_steps=70, stiffness=90.0, damping=12.0, width=0.2)]
)
def test_steps_are_those_of_the_loop(dmp):
    parameters = normal(3, 3e4, (40, dmp.bases))
    parameters[:3] *= 100.0
    goals = np.random.default_rng(4).uniform(-5.0, 5.0, 40)
    positions, lengths = dmp.rollout(parameters, goals, start=0.7, velocity=20.0)
    assert positions.shape == (40, lengths.max())
    assert len(set(lengths)) > 10
    for n in range(40):
        truth = stepped(dmp, parameters[n], goals[n], 0.7, 20.0)
        assert lengths[n] == len(truth)
        np.testing.assert_allclose(positions[n, : lengths[n]], truth, rtol=1e-10, atol=1e-10)


def test_a_trajectory_that_never_arrives_ends_at_the_most_steps():
    dmp = SteppedDMP(tolerance=1e-300)
    positions, lengths = dmp.rollout(np.zeros((1, 10)), [1.0])
    assert positions.shape == (1, 750)
    assert lengths.tolist() == [750]


def test_trajectories_are_linear():
    dmp = SteppedDMP()
    one, other = normal(5, 1e4, (2, 1, 10))
    first = dmp.rollout(one, [2.0], start=1.0, velocity=3.0)[0][:, :301]
    second = dmp.rollout(other, [-1.0], start=0.5, velocity=1.0)[0][:, :301]
    both = dmp.rollout(one + 2.0 * other, [0.0], start=2.0, velocity=5.0)[0][:, :301]
    np.testing.assert_allclose(both, first + 2.0 * second, atol=1e-10)


def test_fit_is_ridge_regression_of_the_force():
    """By stacked least squares, in another way than the code's."""
    dmp = SteppedDMP()
    t = np.linspace(0.0, 1.0, 77)
    demonstrations = np.stack([np.sin(3.0 * t) + t, t**2, normal(6, 1.0, 77)])
    fitted = dmp.fit(demonstrations)
    for demonstration, xi in zip(demonstrations, fitted, strict=True):
        y = np.interp(np.linspace(0.0, 1.0, 300), t, demonstration)
        v = np.diff(y, append=2 * y[-1] - y[-2]) * 299
        a = np.diff(v, append=v[-1]) * 299
        wanted = (a - 1000 * (y[-1] - y) + 100 * v) / np.exp(-np.arange(1, 301) / 60)
        design = np.concatenate([dmp.activations, 1e-4 * np.eye(10)])
        truth, *_ = np.linalg.lstsq(design, np.append(wanted, np.zeros(10)), rcond=None)
        np.testing.assert_allclose(xi, truth, rtol=1e-7)


def test_fit_to_a_smooth_demonstration_reproduces_it():
    dmp = SteppedDMP(bases=30, width=0.02)
    t = np.linspace(0.0, 1.0, 300)
    demonstration = 3.0 * (10 * t**3 - 15 * t**4 + 6 * t**5) + np.sin(np.pi * t) ** 3
    positions, _ = dmp.rollout(dmp.fit(demonstration[None]), [3.0])
    np.testing.assert_allclose(positions[0, :299], demonstration[1:], atol=0.02)


def test_unfit_steps_are_refused():
    dmp = SteppedDMP()
    with pytest.raises(InputError, match=r"parameters must have shape \[N, 10\]"):
        dmp.rollout(np.zeros((2, 9)), [0.0, 0.0])
    with pytest.raises(InputError, match=r"goal must have shape \[2, 1\]"):
        dmp.rollout(np.zeros((2, 10)), [0.0])
    with pytest.raises(InputError, match=r"demonstrations must have shape \[N, M\].* got \[5\]"):
        dmp.fit(np.zeros(5))
    with pytest.raises(InputError, match="most_steps must be a whole number of at least 301; got 300"):
        SteppedDMP(most_steps=300)
    with pytest.raises(InputError, match="tolerance must be a positive number"):
        SteppedDMP(tolerance=0.0)
    positions, lengths = dmp.rollout(np.zeros((0, 10)), np.zeros(0))
    assert positions.shape == (0, 301)
    assert lengths.shape == (0,)
