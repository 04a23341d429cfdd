"""One job: what the task may do, and what is said of it."""

import signal
import threading
import time

import numpy as np
import pytest

from hpsde.errors import InputError
from hpsde.runs.jobs import Job, check_timeout, evaluate_job
from hpsde.tasks.task import task_from_function
from patience import LONG
from rollout_tasks import Scripted, Stochastic, Vectorised, make_jobs, true_return, wait_until


class Gives:
    """A task whose `evaluate` calls the function."""

    def __init__(self, function):
        self.evaluate = function


def in_thread(function):
    """function() in a thread other than the main one."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def in_this_thread(function):
    return function()


def test_returns_are_the_tasks_in_64_bit_and_the_job_stays_as_it_is():
    (job,) = make_jobs(1, size=5)
    contexts, parameters = job.contexts.copy(), job.parameters.copy()
    outcome = evaluate_job(Vectorised(), job)
    np.testing.assert_array_equal(outcome.returns, true_return(contexts, parameters))
    np.testing.assert_array_equal(job.contexts, contexts)
    np.testing.assert_array_equal(job.parameters, parameters)
    assert outcome.ids == job.ids
    assert outcome.reasons == (None,) * 5
    assert outcome.seconds > 0.0
    single = evaluate_job(Gives(lambda contexts, parameters: np.arange(5, dtype=np.float32)), job)
    assert single.returns.dtype == np.float64


def test_arrays_of_jax_are_returns():
    jnp = pytest.importorskip("jax.numpy")
    (job,) = make_jobs(1, size=3)
    outcome = evaluate_job(Gives(lambda contexts, parameters: jnp.sum(parameters, axis=1)), job, timeout=30.0)
    np.testing.assert_allclose(outcome.returns, job.parameters.sum(axis=1))


def test_seeds_reach_only_tasks_that_take_them():
    (job,) = make_jobs(1, size=3)
    seen = []

    class Keeps(Stochastic):
        def evaluate(self, contexts, parameters, seeds):
            seen.append(seeds)
            return super().evaluate(contexts, parameters, seeds)

    outcome = evaluate_job(Keeps(), job)
    assert seen[0].dtype == np.int64
    assert tuple(seen[0]) == job.seeds
    np.testing.assert_array_equal(outcome.returns, [np.random.default_rng(seed).normal() for seed in job.seeds])


def test_only_the_culprits_fail(tmp_path):
    (job,) = make_jobs(1, size=5)
    task = Scripted([job], tmp_path, {1: "raise", 3: "exit", 4: "nan"})
    outcome = evaluate_job(task, job)
    good = [0, 2]
    np.testing.assert_array_equal(outcome.returns[good], true_return(job.contexts, job.parameters)[good])
    assert np.isnan(outcome.returns[[1, 3, 4]]).all()
    assert [outcome.reasons[i] for i in good] == [None, None]
    assert outcome.reasons[1].endswith("RuntimeError: rollout 1 broke")
    assert outcome.reasons[1].count("Traceback") == 1
    assert "SystemExit: 3" in outcome.reasons[3]
    assert outcome.reasons[4] == "the return was nan"


def test_the_reason_shows_the_users_lines_and_none_of_hpsde():
    def broken(context, parameters):
        return 1.0 / (parameters[0] * 0.0)

    def divide(context, parameters):
        with np.errstate(all="raise"):
            return broken(context, parameters)

    job = Job((0,), np.ones((1, 1)), np.ones((1, 1)), (0,))
    task = task_from_function(divide, contexts=[[1.0]], initial=[[1.0]])
    (reason,) = evaluate_job(task, job).reasons
    assert "in divide" in reason
    assert "1.0 / (parameters[0] * 0.0)" in reason
    assert "FloatingPointError: divide by zero" in reason
    assert "src/hpsde" not in reason


def test_errors_of_hpsde_itself_keep_their_lines():
    job = Job((0,), np.ones((1, 1)), np.ones((1, 1)), (0,))
    (reason,) = evaluate_job(task_from_function(lambda s, xi: "good", contexts=[[1.0]], initial=[[1.0]]), job).reasons
    assert "must give one number for a rollout, got" in reason
    assert "jobs.py" not in reason


def test_a_long_reason_is_cut_in_its_middle():
    def shout(contexts, parameters):
        raise ValueError("very " * 10_000 + "wrong")

    (reason,) = evaluate_job(Gives(shout), *make_jobs(1)).reasons
    assert len(reason) < 11_000
    assert reason.startswith("Traceback")
    assert reason.endswith("wrong")


def test_what_is_no_exception_fails_the_rollout_too_but_an_interrupt_passes():
    class Panic(BaseException):
        pass

    def panic(contexts, parameters):
        raise Panic("of a foreign language")

    def interrupt(contexts, parameters):
        raise KeyboardInterrupt

    assert "of a foreign language" in evaluate_job(Gives(panic), *make_jobs(1)).reasons[0]
    with pytest.raises(KeyboardInterrupt):
        evaluate_job(Gives(interrupt), *make_jobs(1, size=2))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.nan, "the return was nan"),
        (-np.inf, "the return was -inf"),
        (1e200, "the return was 1e+200"),
    ],
)
def test_unusable_returns_fail_alone(value, reason):
    outcome = evaluate_job(Gives(lambda contexts, parameters: [1.0, value]), *make_jobs(1, size=2))
    np.testing.assert_array_equal(outcome.returns, [1.0, np.nan])
    assert outcome.reasons == (None, reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1.0, "returns must have shape [2]; got []"),
        ([[1.0], [2.0]], "returns must have shape [2]; got [2, 1]"),
        ([1.0, 2.0, 3.0], "returns must have shape [2]; got [3]"),
        (["good", "bad"], "returns must be numbers; got list"),
        ([[1.0], [1.0, 2.0]], "returns must be numbers; got list"),
        ({"return": 1.0}, "returns must be numbers; got dict"),
        ([1j, 2.0], "returns must be numbers; got list"),
    ],
)
def test_returns_of_a_wrong_kind_say_what_was_expected_and_what_came(value, reason):
    outcome = evaluate_job(Gives(lambda contexts, parameters: value), *make_jobs(1, size=2))
    assert np.isnan(outcome.returns).all()
    assert all(text.startswith(reason) for text in outcome.reasons)


@pytest.mark.parametrize("where", [in_this_thread, in_thread])
def test_a_rollout_that_takes_too_long_fails_alone(where, tmp_path):
    (job,) = make_jobs(1, size=3)
    task = Scripted([job], tmp_path, {1: "sleep"})
    outcome = where(lambda: evaluate_job(task, job, timeout=0.5))
    assert outcome.reasons == (None, "timed out after 0.5 s", None)
    np.testing.assert_array_equal(outcome.returns[[0, 2]], true_return(job.contexts, job.parameters)[[0, 2]])
    assert outcome.seconds < 30.0


@pytest.mark.parametrize("where", [in_this_thread, in_thread])
def test_a_time_limit_passes_by_handlers_of_exceptions_and_ends_loops(where):
    ended = threading.Event()

    def stubborn(contexts, parameters):
        try:
            while True:
                try:
                    time.sleep(0.001)
                except Exception:
                    time.sleep(0.001)
        finally:
            ended.set()

    assert where(lambda: evaluate_job(Gives(stubborn), *make_jobs(1), timeout=0.1)).reasons == (
        "timed out after 0.1 s",
    )
    assert ended.wait(LONG)


@pytest.mark.parametrize("where", [in_this_thread, in_thread])
def test_a_time_limit_that_is_kept_changes_nothing(where, tmp_path):
    (job,) = make_jobs(1, size=3)
    task = Scripted([job], tmp_path, {1: "raise"})
    before = set(threading.enumerate())
    free, limited = evaluate_job(task, job), where(lambda: evaluate_job(task, job, timeout=60))
    np.testing.assert_array_equal(limited.returns, free.returns)
    assert [reason is None for reason in limited.reasons] == [True, False, True]
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_the_callers_own_alarm_is_set_again():
    def handler(signum, frame):
        raise AssertionError("the alarm rang")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000.0, 5.0)
        evaluate_job(Gives(lambda contexts, parameters: time.sleep(60.0)), *make_jobs(1), timeout=0.05)
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
        assert 900.0 < left < 1000.0
        assert interval == 5.0
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((), np.ones((0, 1)), np.ones((0, 1)), ()), "at least one rollout"),
        (((0, 1), np.ones((1, 1)), np.ones((2, 1)), (0, 1)), r"shapes \[1, 1\] and \[2, 1\]"),
        (((0, 1), np.ones((2, 1)), np.ones(2), (0, 1)), r"shapes \[2, 1\] and \[2\]"),
        (((0, 1), np.ones((2, 1)), np.ones((2, 1)), (0,)), "2 ids, 1 seeds"),
        (((0,), np.ones((1, 1)), np.ones((1, 1)), (2**63,)), "below 2\\^63; got 9223372036854775808"),
        (((0,), np.ones((1, 1)), np.ones((1, 1)), (-1,)), "at least 0"),
    ],
)
def test_a_job_whose_parts_do_not_fit_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Job(*fields)


@pytest.mark.parametrize("timeout", [0, -1.0, np.inf, np.nan, True, "60"])
def test_a_time_limit_must_be_a_positive_number(timeout):
    with pytest.raises(InputError, match="timeout must be a positive number of seconds, or None; got"):
        check_timeout(timeout)
