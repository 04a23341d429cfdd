"""Tasks for the tests of jobs and executors. Worker processes load them, and tell what they do through files."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from hpsde.runs.jobs import Job
from patience import LONG


def make_jobs(count, size=1, start=0, seed=0):
    """`count` jobs of `size` rollouts with contexts in the 10s and parameters around 3, ids from `start` on."""
    generator = np.random.default_rng(seed)
    jobs = []
    for first in range(start, start + count * size, size):
        ids = tuple(range(first, first + size))
        contexts, parameters = generator.uniform(10.0, 20.0, (size, 2)), generator.normal(3.0, 1.0, (size, 3))
        jobs.append(Job(ids, contexts, parameters, tuple(7_000_000_000 + i for i in ids)))
    return jobs


def true_return(contexts, parameters):
    return np.sin(contexts).sum(axis=1) - (parameters**2).sum(axis=1)


class Vectorised:
    """All rollouts at once; spoils its arguments."""

    def evaluate(self, contexts, parameters):
        returns = true_return(contexts, parameters)
        contexts[:], parameters[:] = 0.0, 0.0
        return returns


class Stochastic:
    """Returns that depend on the seeds alone."""

    takes_seeds = True

    def evaluate(self, contexts, parameters, seeds):
        return np.array([np.random.default_rng(seed).normal() for seed in seeds])


class Scripted:
    """Rollout by rollout: `acts` says what happens at which of the jobs' rollouts, and `default` at the others.

    Every evaluation leaves a file NUMBER-PID-TIME in `folder`.
    """

    def __init__(self, jobs, folder, acts=None, default="return"):
        self.rows = {row.tobytes(): i for i, row in enumerate(np.concatenate([job.parameters for job in jobs]))}
        self.folder, self.acts, self.default = Path(folder), acts or {}, default

    def evaluate(self, contexts, parameters):
        return np.array([self._one(*row) for row in zip(contexts, parameters, strict=True)])

    def _one(self, context, parameters):
        number = self.rows[parameters.tobytes()]
        first = not list(self.folder.glob(f"{number}-*"))
        (self.folder / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
        act = self.acts.get(number, self.default)
        if act == "raise":
            raise RuntimeError(f"rollout {number} broke")
        if act == "nan":
            return np.nan
        if act == "exit":
            raise SystemExit(3)
        if act == "die" or (act == "die once" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if act == "sleep":
            time.sleep(5.0)
        if act == "hang":
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            while True:
                time.sleep(60.0)
        if act == "keep the interpreter":
            sys.setswitchinterval(1e9)
            while True:
                sum(range(10_000_000))  # no other thread of Python gets its turn
        if act == "wait":
            wait_for(self.folder / "go")
        return float(true_return(context[None], parameters[None])[0])


class Environment:
    """Returns 1 where the process ignores the interrupt key and a closed terminal and has one BLAS thread, else 0."""

    def evaluate(self, contexts, parameters):
        ignored = all(signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGINT, signal.SIGHUP))
        return [float(ignored and os.environ["OPENBLAS_NUM_THREADS"] == "1")]


class Locked:
    """Cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def evaluate(self, contexts, parameters):
        return np.zeros(len(contexts))


def refuse():
    raise RuntimeError("no licence on this machine")


class Unloadable(Vectorised):
    """Can be pickled, not loaded."""

    def __reduce__(self):
        return refuse, ()


class Deadly(Vectorised):
    """Ends the process that loads it."""

    def __reduce__(self):
        return os._exit, (1,)


def wait_for(path, seconds=LONG):
    """Until the file exists."""
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{path} did not come")
        time.sleep(0.01)


def wait_until(condition, seconds=LONG):
    """Until the condition holds; its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError("the condition did not come true")
        time.sleep(0.01)
    return value


def started(folder, number):
    """The process that evaluates, or last evaluated, the rollout; None before it started."""
    files = sorted(folder.glob(f"{number}-*"), key=lambda file: int(file.name.split("-")[2]))
    return int(files[-1].name.split("-")[1]) if files else None


def evaluated(folder):
    """The numbers of all rollouts that were started."""
    return {int(file.name.split("-")[0]) for file in folder.iterdir() if file.name != "go"}


def alive(pid):
    """Whether there is such a process that has not ended. One that waits for its parent to take note has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
