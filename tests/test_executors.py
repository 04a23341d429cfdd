"""Jobs in this process, in local processes and on a dask cluster: the same outcomes, whatever dies on the way."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import cloudpickle
import dask
import distributed
import numpy as np
import pytest

import hpsde
import hpsde.runs.cluster
import hpsde.runs.local
import small
import stored
from hpsde.errors import HpsdeError, InputError
from hpsde.runs.cluster import Cluster
from hpsde.runs.executors import InProcess, make_executor
from hpsde.runs.local import LocalProcesses
from hpsde.runs.shipping import own_modules, packed_task, unpacked_task
from hpsde.tasks.task import task_from_function
from patience import LONG
from rollout_tasks import (
    Deadly,
    Environment,
    Locked,
    Scripted,
    Stochastic,
    Unloadable,
    Vectorised,
    alive,
    evaluated,
    make_jobs,
    started,
    true_return,
    wait_for,
    wait_until,
)


@contextlib.contextmanager
def dask_cluster(workers=2):
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster():
    with dask_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["here", "one process", "three processes", "cluster"])
def executor_of(request):
    """task -> executor."""
    options = {"here": {}, "one process": {"workers": 1}, "three processes": {"workers": 3}}
    if request.param == "cluster":
        options["cluster"] = {"cluster": request.getfixturevalue("cluster").scheduler_address}
    return lambda task, **more: make_executor(task, **options[request.param], **more)


def outcomes_by_id(executor, jobs):
    """Rollout -> (return, reason), after a check that every rollout came once."""
    outcomes = list(executor.run(jobs))
    ids = [i for outcome in outcomes for i in outcome.ids]
    assert sorted(ids) == sorted(i for job in jobs for i in job.ids)
    assert executor.under_way == 0
    rows = [row for outcome in outcomes for row in zip(outcome.ids, outcome.returns, outcome.reasons, strict=True)]
    return {number: (value, reason) for number, value, reason in rows}


def returns_of(outcomes):
    return np.array([outcomes[i][0] for i in sorted(outcomes)])


def true_returns(jobs):
    return np.concatenate([true_return(job.contexts, job.parameters) for job in jobs])


def plain(context, parameters):
    return float(true_return(context[None], parameters[None])[0])


def test_outcomes_do_not_depend_on_the_executor(executor_of):
    jobs = make_jobs(6) + make_jobs(7, size=4, start=6, seed=1)
    with executor_of(Vectorised()) as executor:
        for _ in range(2):
            np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs)), true_returns(jobs))
    drawn = [np.random.default_rng(seed).normal() for job in jobs for seed in job.seeds]
    with executor_of(Stochastic()) as executor:
        np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs)), drawn)


def test_one_of_your_own_evaluates_a_run(tmp_path):
    seen = []

    class Counting(InProcess):
        def run(self, jobs):
            for outcome in super().run(jobs):
                seen.extend(outcome.ids)
                yield outcome

    sizes = {"method": "creps", "rollouts": 24, "initial_rollouts": 16, "batch": 8, "seed": 3}
    policies = []
    for name, given in (("own", {"executor": Counting}), ("usual", {})):
        with hpsde.Run.create(tmp_path / name, stored.make_task(), **sizes) as run:
            policies.append(run.learn(progress=False, **given))
    assert sorted(seen) == list(range(1, 25))
    small.assert_same_bits(*policies)
    with (
        hpsde.Run.create(tmp_path / "both", stored.make_task(), **sizes) as run,
        pytest.raises(InputError, match="an executor of your own takes the place of workers, cluster, timeout"),
    ):
        run.learn(executor=Counting, workers=2)


@pytest.mark.parametrize("where", ["here", "processes", "cluster"])
def test_a_plain_function_is_evaluated_anywhere(where, cluster):
    options = {"here": {}, "processes": {"workers": 1}, "cluster": {"cluster": cluster}}[where]
    jobs = make_jobs(8)
    task = task_from_function(plain, contexts=np.ones((1, 2)), initial=np.ones((1, 3)))
    with make_executor(task, timeout=60.0, **options) as executor:
        np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs)), true_returns(jobs))


def test_failed_rollouts_are_outcomes(executor_of, tmp_path):
    jobs = make_jobs(3, size=2) + make_jobs(2, start=6, seed=1)
    task = Scripted(jobs, tmp_path, {1: "raise", 2: "exit", 5: "nan", 7: "sleep"})
    with executor_of(task, timeout=2.0) as executor:
        outcomes = outcomes_by_id(executor, jobs)
    good = [0, 3, 4, 6]
    np.testing.assert_array_equal(returns_of(outcomes)[good], true_returns(jobs)[good])
    assert all(outcomes[i][1] is None for i in good)
    assert "RuntimeError: rollout 1 broke" in outcomes[1][1]
    assert "hpsde/runs" not in outcomes[1][1]
    assert "SystemExit: 3" in outcomes[2][1]
    assert outcomes[5][1] == "the return was nan"
    assert outcomes[7][1] == "timed out after 2 s"
    assert np.isnan(returns_of(outcomes)[[1, 2, 5, 7]]).all()


def test_no_jobs_no_outcomes(executor_of):
    with executor_of(Vectorised()) as executor:
        assert executor.workers >= 1
        assert list(executor.run([])) == []


def test_stop_yields_what_is_under_way_and_starts_nothing_else(executor_of, tmp_path):
    jobs = make_jobs(30)
    started_before = set()

    def stop_amid():
        wait_until(lambda: len(list(tmp_path.iterdir())) == executor.workers)
        started_before.update(evaluated(tmp_path))
        executor.stop()
        (tmp_path / "go").touch()

    with executor_of(Scripted(jobs, tmp_path, default="wait")) as executor:
        thread = threading.Thread(target=stop_amid)
        thread.start()
        outcomes = [outcome.ids[0] for outcome in executor.run(jobs)]
        thread.join()
        assert len(set(outcomes)) == len(outcomes)
        assert started_before == set(outcomes) == evaluated(tmp_path)
        assert executor.under_way == 0
        assert list(executor.run(jobs)) == []


def test_a_local_worker_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path):
    jobs = make_jobs(12)
    acts = {2: "wait"}
    with LocalProcesses(Scripted(jobs, tmp_path, acts), workers=2) as executor:
        running = executor.run(jobs)
        first = [next(running)]
        victim = wait_until(lambda: started(tmp_path, 2))
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "go").touch()
        outcomes = first + list(running)
        assert sorted(outcome.ids[0] for outcome in outcomes) == list(range(12))
        by_id = {outcome.ids[0]: outcome.returns[0] for outcome in outcomes}
        np.testing.assert_array_equal([by_id[i] for i in range(12)], true_returns(jobs))
        assert started(tmp_path, 2) != victim


def test_a_local_rollout_that_kills_its_workers_fails_alone(tmp_path):
    jobs = make_jobs(6) + make_jobs(2, size=3, start=6, seed=1)
    acts = {0: "die once", 3: "die", 4: "die once", 10: "die"}
    with LocalProcesses(Scripted(jobs, tmp_path, acts), workers=2) as executor:
        outcomes = outcomes_by_id(executor, jobs)
    culprits, good = [3, 10], [0, 1, 2, 4, 5, 6, 7, 8, 9, 11]
    assert [outcomes[i][1] for i in culprits] == ["its worker process was killed twice (out of memory?)"] * 2
    np.testing.assert_array_equal(returns_of(outcomes)[good], true_returns(jobs)[good])
    # Rollouts 9, 10 and 11 are a job: tried together twice, then each by itself.
    assert [len(list(tmp_path.glob(f"{i}-*"))) for i in range(12)] == [2, 1, 1, 2, 2, 1, 1, 1, 1, 3, 4, 1]


def test_a_local_worker_that_died_while_idle_is_replaced(tmp_path):
    jobs = make_jobs(2)
    with LocalProcesses(Scripted(jobs, tmp_path), workers=1) as executor:
        np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs)), true_returns(jobs))
        os.kill(started(tmp_path, 1), signal.SIGKILL)
        np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs)), true_returns(jobs))


def test_a_job_for_a_worker_that_just_died_at_another_does_not_displace_it(tmp_path):
    first, second = make_jobs(2)
    lane = hpsde.runs.local._Lane(packed_task(Scripted([first, second], tmp_path, {0: "wait"})), None)
    try:
        assert lane.submit(first)
        os.kill(wait_until(lambda: started(tmp_path, 0)), signal.SIGKILL)
        wait_until(lambda: lane.broken)
        assert not lane.submit(second)
        assert lane.jobs == [first]
    finally:
        lane.kill()


def test_code_that_no_signal_ends_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(hpsde.runs.local, "GRACE_SECONDS", 2.0)
    jobs = make_jobs(3, size=2)
    with LocalProcesses(Scripted(jobs, tmp_path, {1: "hang"}), workers=2, timeout=1.0) as executor:
        outcomes = outcomes_by_id(executor, jobs)
        assert outcomes[1][1] == "timed out after 1 s"
        assert not alive(started(tmp_path, 1))
    good = [0, 2, 3, 4, 5]
    np.testing.assert_array_equal(returns_of(outcomes)[good], true_returns(jobs)[good])


def test_close_kills_the_workers(tmp_path):
    jobs = make_jobs(4)
    executor = LocalProcesses(Scripted(jobs, tmp_path, default="hang"), workers=2)
    running = executor.run(jobs)
    thread = threading.Thread(target=lambda: [started_both(tmp_path), executor.close()])
    thread.start()
    with contextlib.suppress(Exception):  # the iterator was not meant to be used on
        list(running)
    thread.join()
    assert not any(alive(started(tmp_path, i)) for i in (0, 1))
    assert started(tmp_path, 2) is None


def started_both(folder):
    wait_until(lambda: started(folder, 0) and started(folder, 1))


def test_giving_up_the_iterator_frees_the_workers(tmp_path):
    jobs = make_jobs(4)
    with LocalProcesses(Scripted(jobs, tmp_path, {1: "hang"}), workers=2) as executor:
        running = executor.run(jobs[:2])
        assert next(running).ids == (0,)
        wait_until(lambda: started(tmp_path, 1))
        running.close()
        assert executor.under_way == 0
        np.testing.assert_array_equal(returns_of(outcomes_by_id(executor, jobs[2:])), true_returns(jobs[2:]))
        assert not alive(started(tmp_path, 1))


@pytest.mark.parametrize("act", ["wait", "keep the interpreter"])
def test_workers_end_when_their_driver_is_killed(act, tmp_path):
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from rollout_tasks import Scripted, make_jobs
        from hpsde.runs.local import LocalProcesses
        jobs = make_jobs(1)
        list(LocalProcesses(Scripted(jobs, sys.argv[2], default=sys.argv[3]), workers=1).run(jobs))
    """
    arguments = [textwrap.dedent(code), str(Path(__file__).parent), str(tmp_path), act]
    driver = subprocess.Popen([sys.executable, "-c", *arguments])
    worker = wait_until(lambda: started(tmp_path, 0))
    assert alive(worker)
    driver.kill()
    driver.wait()
    try:
        wait_until(lambda: not alive(worker))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_local_workers_ignore_the_interrupt_key_and_use_one_thread(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with LocalProcesses(Environment(), workers=1) as executor:
        assert outcomes_by_id(executor, make_jobs(1)) == {0: (1.0, None)}
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_a_task_that_cannot_travel_is_refused(cluster):
    with pytest.raises(InputError, match="the task must be picklable to travel to other processes; Locked is not"):
        make_executor(Locked(), workers=2)
    with pytest.raises(InputError, match="the task must be picklable to travel to other processes; Locked is not"):
        make_executor(Locked(), cluster=cluster)
    assert outcomes_by_id(make_executor(Locked()), make_jobs(1)) == {0: (0.0, None)}


@pytest.mark.parametrize("where", ["processes", "cluster"])
def test_a_task_that_cannot_be_loaded_says_why(where, cluster):
    options = {"processes": {"workers": 2}, "cluster": {"cluster": cluster}}[where]
    with (
        make_executor(Unloadable(), **options) as executor,
        pytest.raises(InputError, match=r"(?s)could not be loaded in a worker:.*no licence on this machine"),
    ):
        list(executor.run(make_jobs(3)))


def test_a_task_that_kills_processes_as_it_loads_is_an_error():
    with (
        LocalProcesses(Deadly(), workers=1) as executor,
        pytest.raises(HpsdeError, match="a worker process died 3 times while it started or loaded the task"),
    ):
        list(executor.run(make_jobs(3)))


def test_workers_and_cluster_exclude_each_other():
    with pytest.raises(InputError, match="workers and cluster exclude each other"):
        make_executor(Vectorised(), workers=2, cluster="tcp://127.0.0.1:8786")


@pytest.mark.parametrize("workers", [0, -1, True])
def test_workers_must_be_a_positive_whole_number(workers):
    with pytest.raises(InputError, match="workers must be a whole number of at least 1; got"):
        make_executor(Vectorised(), workers=workers)


def test_a_dask_worker_that_is_killed_loses_nothing(cluster, tmp_path):
    jobs = make_jobs(16)
    with distributed.Client(cluster, set_as_default=False) as client:
        executor = Cluster(Scripted(jobs, tmp_path, {1: "wait"}), client)
        running = executor.run(jobs)
        first = [next(running)]
        victim = wait_until(lambda: started(tmp_path, 1))
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "go").touch()
        outcomes = first + list(running)
        assert sorted(outcome.ids[0] for outcome in outcomes) == list(range(16))
        by_id = {outcome.ids[0]: outcome.returns[0] for outcome in outcomes}
        np.testing.assert_array_equal([by_id[i] for i in range(16)], true_returns(jobs))
        assert started(tmp_path, 1) != victim
        executor.close()
        assert client.status == "running"


def test_a_rollout_that_kills_dask_workers_fails_alone(tmp_path):
    jobs = make_jobs(3, size=2)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_cluster() as cluster,
        make_executor(Scripted(jobs, tmp_path, {2: "die"}), cluster=cluster) as executor,
    ):
        outcomes = outcomes_by_id(executor, jobs)
    good = [0, 1, 3, 4, 5]
    assert outcomes[2][1] == "the worker processes that ran it died (out of memory?)"
    np.testing.assert_array_equal(returns_of(outcomes)[good], true_returns(jobs)[good])


def test_a_lost_scheduler_is_an_error(tmp_path):
    jobs = make_jobs(4)
    scheduler_file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
         "--scheduler-file", str(scheduler_file)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(scheduler_file)
        with Cluster(Vectorised(), scheduler_file) as executor:
            threading.Thread(target=lambda: [wait_until(lambda: executor.under_way), scheduler.kill()]).start()
            with (
                pytest.warns(UserWarning, match="the cluster has no workers; rollouts wait until one joins"),
                pytest.raises(HpsdeError, match="the dask scheduler is lost"),
            ):
                list(executor.run(jobs))
            assert executor.under_way == 0
    finally:
        scheduler.kill()
        scheduler.wait()


def test_a_cluster_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(hpsde.runs.cluster, "CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"no dask scheduler answers at tcp://127.0.0.1:1"):
        make_executor(Vectorised(), cluster="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match=r"no dask scheduler answers at nonsense://127.0.0.1"):
        make_executor(Vectorised(), cluster="nonsense://127.0.0.1")
    with pytest.raises(InputError, match=r"scheduler.json', and there is no such file"):
        make_executor(Vectorised(), cluster=str(tmp_path / "scheduler.json"))
    with pytest.raises(InputError, match="or a cluster of dask; got int"):
        make_executor(Vectorised(), cluster=8786)


def test_a_closed_client_is_refused(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        pass
    with pytest.raises(InputError, match=r"expected a running synchronous distributed.Client; got one that is closed"):
        make_executor(Vectorised(), cluster=client)


def test_without_dask_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'hpsde\[cluster\]'"):
        make_executor(Vectorised(), cluster="tcp://127.0.0.1:8786")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The return function of a project that is not installed: a module, and a package beside it that it uses."""
    (tmp_path / "throwing").mkdir()
    (tmp_path / "throwing/__init__.py").write_text("GRAVITY = 9.81\n")
    (tmp_path / "throwing/ballistics.py").write_text("from throwing import GRAVITY\ndef fall(t): return GRAVITY * t\n")
    (tmp_path / "catapult.py").write_text(
        "import numpy as np\nfrom throwing import ballistics\n"
        "def my_return(parameters): return ballistics.fall(np.abs(parameters[0]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import catapult

    yield catapult
    for name in ("catapult", "throwing", "throwing.ballistics"):
        sys.modules.pop(name, None)


def test_modules_of_the_users_own_travel_to_the_cluster(project, cluster):
    task = task_from_function(project.my_return, initial=np.ones((1, 3)))
    assert {module.__name__ for module in own_modules(task)} == {"catapult", "throwing", "throwing.ballistics"}
    jobs = [type(job)(job.ids, np.zeros((1, 0)), job.parameters, job.seeds) for job in make_jobs(4)]
    with make_executor(task, cluster=cluster) as executor:
        outcomes = outcomes_by_id(executor, jobs)
    np.testing.assert_array_equal(returns_of(outcomes), [9.81 * abs(job.parameters[0, 0]) for job in jobs])
    assert not cloudpickle.list_registry_pickle_by_value()


def test_what_is_installed_travels_by_name():
    task = task_from_function(np.sum, initial=np.ones((1, 3)))
    assert own_modules(task) == []
    assert unpacked_task(packed_task(task, with_modules=True)).function is np.sum


POOL = """
import multiprocessing, sys
import hpsde

def ways(parameters):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(abs, [1, 2])
    return -abs(parameters[0])

if __name__ == "__main__":
    run = hpsde.Run.create(sys.argv[1], ways, initial=hpsde.Uniform(0.0, 1.0), rollouts=30, initial_rollouts=30)
    print(len(run.learn(progress=False).options), "options")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_function_may_have_a_pool_of_its_own(tmp_path):
    """A pool ends its children by a signal, which they must not take for the run's."""
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    start = [sys.executable, "-W", "ignore", script, tmp_path / "run"]
    done = subprocess.run(start, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout) == (0, "1 options\n"), done.stderr
