"""Where the seconds of a command go: imports, tracing, compiling, and the steps of learning; cold, kept and again.

    python benchmarks/profile.py [--only TEXT] [--out FILE]
    python benchmarks/profile.py --act POLICY.npz ...

Every command runs in a process of its own: first with an empty folder for compiled programs (cold), then with what
that has kept (kept); a learner and a loaded policy once more in that same process (again). Seconds are CPU seconds of
the process, for the machine may be shared; those of tracing and compiling, which JAX tells by the clock, are taken at
the rate at which the process had the CPU meanwhile. A second belongs to the innermost part: what is compiled for the
gate is compilation. The last table has the milliseconds of `policy.act`, the shortest of many calls. `--act` measures
that alone, of stored policies: loading them, the first call, the mean of one context in many, and a thousand at once.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

RESULTS = Path(__file__).parent / "results" / "profile.md"
PARTS = {
    "GP fit": ("gp.fit:fit_hyperparameters", "gp.binary:fit_binary", "gp.directions:few_directions"),
    "posterior": (
        "gp.lapack:condition_by_lapack",
        "gp.blocked:condition",
        "gp.sparse:condition_sparse",
        "gp.binary:condition_binary",
    ),
    "landscape": ("steps.return_model:survey", "steps.latent:with_features", "steps.latent:show"),
    "mixture": ("steps.searching:find_options",),
    "options": (
        "steps.training:train_options",
        "steps.training:widen_options",
        "steps.refining:refine_options",
        "steps.hills:climb",
        "steps.hills:on_tops",
    ),
    "model step": ("steps.training:improve_options",),
    "gate": ("steps.gates:train_gate", "steps.gates:scores"),
}
COLUMNS = ("import", "trace", "compile", *PARTS, "rest")
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "trace",
    "/jax/core/compile/backend_compile_duration": "compile",
}
LEARN, LOAD = "hpsde.learn of the README", "hpsde.load_policy(...).act(s)"
SHELL = {
    "hpsde run toy-triple": ["run", "toy-triple", "--quiet"],
    "hpsde run puddle": ["run", "puddle", "--quiet"],
    "hpsde run reach": ["run", "reach", "--quiet"],
    "hpsde act": ["act", "{folder}/policy.npz", "--context", "5"],
    "hpsde ask": ["ask", "{folder}/asked", "--context", "5"],
    "hpsde ask by a policy": ["ask", "{folder}/learned", "--context", "5"],
    "hpsde methods": ["methods"],
    "hpsde settings": ["settings"],
    "hpsde tasks": ["tasks"],
    "hpsde --version": ["--version"],
}
LONG = ("hpsde run puddle", "hpsde run reach")
INITIAL = ["--initial", "uniform(0, 90)", "--context-size", "1", "--initial-rollouts", "60"]
CONTEXTS, CALLS = (1, 1000), 50


class Meter:
    """CPU seconds by the innermost part that is under way."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(COLUMNS, 0.0)
        self.compilations = 0
        self._parts = ["rest"]
        self._cpu = 0.0  # up to when seconds have been given to parts
        self._mark = (time.perf_counter(), time.process_time())
        self._spans: list[tuple[float, float]] = []  # start by the clock and CPU seconds of what was traced or compiled
        self._patched: set[str] = set()

    def count(self) -> None:
        """Give the seconds since the last time to the part under way."""
        now = time.process_time()
        self.seconds[self._parts[-1]] += now - self._cpu
        self._cpu, self._mark = now, (time.perf_counter(), now)

    def within(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its seconds given to the part."""

        @functools.wraps(function)
        def measured(*arguments: Any, **named: Any) -> Any:
            self.count()
            self._parts.append(part)
            try:
                return function(*arguments, **named)
            finally:
                self.count()
                self._parts.pop()

        return measured

    def listen(self, event: str, seconds: float, **_: Any) -> None:
        """JAX has traced or compiled something for so long; what was traced within it is told before it."""
        if event not in EVENTS:
            return
        clock, cpu = time.perf_counter(), time.process_time()
        start, rate = clock - seconds, (cpu - self._mark[1]) / max(clock - self._mark[0], 1e-9)
        inner = sum(spent for begun, spent in self._spans if begun >= start)
        own = max(min(rate, 1.0) * seconds - inner, 0.0)
        self._spans = [span for span in self._spans if span[0] < start] + [(start, inner + own)]
        self.seconds[EVENTS[event]] += own
        self._cpu += own  # no longer the part's
        self.compilations += EVENTS[event] == "compile"

    def watch_imports(self) -> None:
        """Imports are a part, and functions of the other parts are wrapped as soon as they are there."""
        original, of_name = builtins.__import__, importlib.import_module

        def imported(name: str, *rest: Any, **named: Any) -> Any:
            level = rest[3] if len(rest) > 3 else named.get("level", 0)
            fromlist = (rest[2] if len(rest) > 2 else named.get("fromlist")) or ()
            known = level == 0 and name in sys.modules and all(hasattr(sys.modules[name], each) for each in fromlist)
            return original(name, *rest, **named) if known else self._loaded(original, name, *rest, **named)

        builtins.__import__ = imported
        importlib.import_module = lambda name, package=None: (
            sys.modules[name] if name in sys.modules else self._loaded(of_name, name, package)
        )

    def _loaded(self, load: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        module = self.within("import", load)(*arguments, **named)
        for part, names in PARTS.items():
            for each in names:
                self._wrap(part, *f"hpsde.{each}".split(":"))
        monitoring = sys.modules.get("jax.monitoring")
        if "jax" not in self._patched and hasattr(monitoring, "register_event_duration_secs_listener"):
            self._patched.add("jax")
            monitoring.register_event_duration_secs_listener(self.listen)  # type: ignore[union-attr]
        return module

    def _wrap(self, part: str, module: str, name: str) -> None:
        found = sys.modules.get(module)
        if f"{module}:{name}" in self._patched or found is None or getattr(found.__spec__, "_initializing", False):
            return
        self._patched.add(f"{module}:{name}")
        setattr(found, name, self.within(part, getattr(found, name)))

    def reading(self) -> dict[str, Any]:
        """The seconds since the last reading, by part."""
        self.count()
        found = {"seconds": self.seconds, "compilations": self.compilations}
        self.seconds, self.compilations = dict.fromkeys(COLUMNS, 0.0), 0
        return found


def throw(context: Any, parameters: Any) -> float:
    """The README's example: minus how far from the target, in metres, a ball thrown at 10 m/s lands."""
    import numpy as np

    (distance,), (angle,) = context, parameters
    return float(-abs(10.0**2 / 9.81 * np.sin(2.0 * np.radians(angle)) - distance))


def measured(name: str, folder: Path, parts: bool) -> list[dict[str, Any]]:
    """In a process of its own: the readings of a command; `parts`: with its imports and steps told apart."""
    meter = Meter()
    if parts:
        meter.watch_imports()
    if name in SHELL:
        from hpsde.cli import main

        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        code = main([each.format(folder=folder) for each in SHELL[name]])
        sys.stdout = sys.__stdout__
        if code:
            raise SystemExit(f"{name} failed")
        return [meter.reading()]
    import hpsde

    if name == LEARN:
        readings = []
        for _ in range(2):
            made = {"contexts": hpsde.Uniform(3.0, 8.0), "initial": hpsde.Uniform(0.0, 90.0)}
            policy = hpsde.learn(throw, seed=0, progress=False, **made)
            readings.append(meter.reading())
        policy.save(folder / "policy.npz")
        return readings
    policy = hpsde.load_policy(folder / "policy.npz")
    policy.act(5.0)
    readings = [meter.reading()]
    policy.act(5.0)
    return [*readings, meter.reading()]


def seconds_of(function: Callable[[], Any]) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def act_milliseconds(folder: Path) -> dict[int, float]:
    """The shortest of many calls of `act` with so many contexts."""
    import numpy as np

    import hpsde

    policy, found = hpsde.load_policy(folder / "policy.npz"), {}
    for count in CONTEXTS:
        contexts = np.linspace(3.0, 8.0, count)[:, None]
        policy.act(contexts)
        found[count] = 1e3 * min(seconds_of(lambda: policy.act(contexts)) for _ in range(CALLS))  # noqa: B023 - at once
    return found


def acting(path: str) -> str:
    """A row of the table of stored policies, whose contexts are drawn from the box of those they know."""
    import numpy as np

    import hpsde

    hpsde.load_policy(path)
    load = seconds_of(lambda: hpsde.load_policy(path))
    policy = hpsde.load_policy(path)
    known = policy.known_contexts
    contexts = np.random.default_rng(0).uniform(known.min(axis=0), known.max(axis=0), (1000, known.shape[1]))
    first = seconds_of(lambda: policy.act(contexts[0]))
    one = [min(seconds_of(lambda: policy.act(each)) for _ in range(5)) for each in contexts[:CALLS]]  # noqa: B023
    many = min(seconds_of(lambda: policy.act(contexts)) for _ in range(CALLS))
    times = " | ".join(f"{1e3 * value:.3g}" for value in (load, first, float(np.mean(one)), many))
    return f"| {Path(path).parent.name} | {len(policy.options)} | {times} |"


def prepare(folder: Path, learned: bool) -> None:
    """Runs to be asked: one that has no policy yet, and one that has been given its first rollouts, and has learned."""
    import contextlib

    import numpy as np

    import hpsde
    from hpsde.cli import main

    with contextlib.redirect_stdout(None):
        main(["create", str(folder / "asked"), *INITIAL])
        main(["create", str(folder / "learned"), *INITIAL])
    if not learned:
        return
    angles = np.random.default_rng(0).uniform(0.0, 90.0, (80, 1))
    contexts = np.random.default_rng(1).uniform(3.0, 8.0, (80, 1))
    with hpsde.Run.open(folder / "learned") as run:
        run.add(contexts, angles, [throw(s, xi) for s, xi in zip(contexts, angles, strict=True)])
        run.ask([[5.0]])


def child(folder: Path, cache: Path | None, *arguments: str) -> Any:
    """What a process of its own prints as JSON; compiled programs are kept in the folder `cache`."""
    import subprocess

    left_out = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["XDG_CACHE_HOME"] = str(cache or folder / "cache")
    command = [sys.executable, __file__, "--folder", str(folder), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def line(name: str, when: str, reading: dict[str, Any]) -> str:
    """A row of the table."""
    seconds = reading["seconds"]
    numbers = [sum(seconds.values()), *(seconds[each] for each in COLUMNS)]
    shown = " | ".join(f"{number:.2f}" if number >= 0.005 else "" for number in numbers)
    return f"| {name} | {when} | {shown} | {reading['compilations'] or ''} |"


def profile(names: Sequence[str], folder: Path) -> str:
    """The tables."""
    lines = [f"| command | | CPU s | {' | '.join(COLUMNS)} | compiled |", "|---|---|" + "---|" * (len(COLUMNS) + 2)]
    for number, name in enumerate(names):
        cache = folder / f"cache{number}"
        for when in ("cold", "kept"):
            readings = child(folder, cache, "--child", name)
            for which, reading in zip((when, "again"), readings, strict=False):
                if which != "again" or when == "kept":
                    lines.append(line(name, which, reading))
                    print(lines[-1], flush=True)
    if (folder / "policy.npz").exists():
        times = child(folder, None, "--child", "act")
        lines += ["", "| contexts | `policy.act`, ms |", "|---|---|"]
        lines += [f"| {count} | {value:.3g} |" for count, value in times.items()]
        print(*lines[-len(times) :], sep="\n")
    return "\n".join(lines)


def machine() -> str:
    """Processor and versions, for the head of the page."""
    import platform

    import jax
    import numpy

    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [each.split(":")[1].strip() for each in cpuinfo.read_text().splitlines() if each.startswith("model na")]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, JAX {jax.__version__}, numpy {numpy.__version__}"
    return f"{model}, {os.cpu_count()} cores, one BLAS thread; {versions}"


def main() -> None:
    """The whole profile or, in a process of its own, one command."""
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="commands whose name has such text")
    parser.add_argument("--long", action="store_true", help="puddle and reach, too (minutes)")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"write the tables there, such as {RESULTS.name}")
    parser.add_argument("--act", nargs="+", metavar="POLICY.npz", help="only `policy.act` of these")
    for hidden in ("--child", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        folder = Path(given.folder)
        if given.child.startswith("prepare"):
            print(json.dumps(prepare(folder, learned=given.child.endswith("learned"))))
        elif given.child == "act":
            print(json.dumps(act_milliseconds(folder)))
        else:
            print(json.dumps(measured(given.child, folder, parts=True)))
        return
    if given.act:
        head = ("policy", "options", "load, ms", "first call, ms", "one context, ms", "1,000 contexts, ms")
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", *map(acting, given.act), sep="\n")
        return
    wanted = [each for each in (LEARN, LOAD, *SHELL) if any(text in each for text in given.only)]
    names = [each for each in wanted if given.long or each not in LONG]
    with tempfile.TemporaryDirectory(prefix="hpsde-profile-") as where:
        folder = Path(where)
        if any("ask" in name for name in names):
            child(folder, None, "--child", "prepare learned" if "hpsde ask by a policy" in names else "prepare")
        if LEARN not in names and (LOAD in names or "hpsde act" in names):
            child(folder, None, "--child", LEARN)
        tables = profile(names, folder)
    if given.out is not None:
        head = "# Where the seconds go\n\n`python benchmarks/profile.py --out FILE` (CPU seconds):"
        given.out.write_text(f"{head} {machine()}.\n\n{tables}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
