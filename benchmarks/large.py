"""What a learning step costs against the number of rollouts, and how far the sparse process is from the exact one.

    python benchmarks/large.py run --rollouts 2000 20000 100000 [--contexts 0 1] [--out FILE.csv]
    python benchmarks/large.py gate [--rollouts 20000] [--contexts 1]
    python benchmarks/large.py draw [FILE.csv]

`run` learns a task of two parameters with four solutions, with as many rollouts in all, to the end, each size in a
process of its own: CPU seconds of the learner in all and of its longest step, and the most memory that the process had.
`gate` compares the gate of a sparse process with that of an exact one over the same rollouts: in how many contexts they
choose the same of the policy's options, and how far each is from the true return. `draw` makes the figure.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

RESULTS = Path(__file__).parent / "results" / "large.csv"
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "large.png"
COLUMNS = (
    "contexts",
    "rollouts",
    "steps",
    "learner_s",
    "longest_step_s",
    "last_step_s",
    "peak_gb",
    "options",
    "regret",
)
SEED = 900


def himmelblau(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Four equally good points, which move with a context where there is one: minus Himmelblau's function / 100."""
    x, y = 10.0 * parameters[:, 0] - 5.0, 10.0 * parameters[:, 1] - 5.0
    if contexts.shape[1]:
        x = x + contexts[:, 0]
    return -((x**2 + y - 11.0) ** 2 + (x + y**2 - 7.0) ** 2) / 100.0


def learn(contexts: int, rollouts: int, **settings: Any) -> tuple[Any, list[float]]:
    """The learner at the end of a run with the defaults of `hpsde.learn`, and the CPU seconds of its steps."""
    import hpsde
    from hpsde.learning import batch_size

    first = min(rollouts * 4 // 7 if contexts else rollouts // 3, 600)
    learner = hpsde.HPSDE(
        contexts,
        2,
        initial=hpsde.Uniform([0, 0], [1, 1]),
        initial_rollouts=first,
        expected_rollouts=rollouts,
        seed=SEED,
        **settings,
    )
    seconds, generator = [], np.random.default_rng(SEED)
    while len(learner.rollouts) < rollouts:
        count = first if not len(learner.rollouts) else batch_size(rollouts, context_size=contexts)
        rows = generator.uniform(-1.0, 1.0, (min(count, rollouts - len(learner.rollouts)), contexts))
        begun = time.process_time()
        parameters = learner.ask(rows if contexts else None, count=None if contexts else len(rows)).parameters
        asked = time.process_time() - begun
        returns = himmelblau(rows, parameters)
        begun = time.process_time()
        learner.tell(rows if contexts else None, parameters, returns)
        learner.policy  # noqa: B018 - learns
        seconds.append(asked + time.process_time() - begun)
        if os.environ.get("LARGE_VERBOSE"):
            print(len(learner.rollouts), round(seconds[-1], 2), round(peak_gb(), 2), file=sys.stderr, flush=True)
    return learner, seconds


def peak_gb() -> float:
    """The most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measured(contexts: int, rollouts: int) -> dict[str, Any]:
    """A row of the table; the first steps compile, and are in the learner's seconds, but not the longest step."""
    learner, seconds = learn(contexts, rollouts)
    policy = learner.policy
    rows = np.linspace(-1.0, 1.0, 101 if contexts else 1)[:, None][:, :contexts]
    values = [himmelblau(rows, option.mean(rows)) for option in policy.options]
    return {
        "contexts": contexts,
        "rollouts": rollouts,
        "steps": len(seconds),
        "learner_s": round(sum(seconds), 1),
        "longest_step_s": round(max(seconds[len(seconds) // 4 :]), 2),
        "last_step_s": round(float(np.median(seconds[-5:])), 2),
        "peak_gb": round(peak_gb(), 2),
        "options": len(values),
        "regret": float(f"{-np.mean(himmelblau(rows, np.asarray(policy.act(rows)).reshape(len(rows), 2))):.3g}"),
    }


def compare_gates(contexts: int, rollouts: int) -> dict[str, Any]:
    """How often a sparse gate of all rollouts of a run agrees with the exact one of as many, and their errors."""
    import dataclasses

    from hpsde import gp
    from hpsde.base.precision import double_precision

    learner, _ = learn(contexts, rollouts)

    @double_precision
    def compare() -> dict[str, Any]:
        policy, gate = learner.policy, learner.policy.gate
        if not gate.sparse:
            raise SystemExit("the gate is not sparse: too few rollouts, or all good returns are equal")
        told, units = learner.rollouts, learner.policy.units
        z = np.concatenate([units.parameters(told.parameters), units.contexts(told.contexts)], axis=1)
        z = z if gate.axes is None else z @ np.asarray(gate.axes).T
        advantages = told.returns - units.level(told.contexts)
        y = np.interp(advantages, gate.warp.returns, gate.warp.scores)
        begun = time.process_time()
        exact = gp.posterior(gate.process.hyperparameters, z, y, np.ones(len(y), dtype=bool))
        spent = time.process_time() - begun
        other = dataclasses.replace(policy, gate=gate._replace(process=exact, scores=y, sparse=False))
        rows = np.random.default_rng(1).uniform(-1.0, 1.0, (2000, contexts))
        chosen = [np.asarray(each.gate_scores(rows)).argmax(axis=0) for each in (policy, other)]
        values = np.stack([himmelblau(rows, option.mean(rows)) for option in policy.options])
        taken = [values[each, np.arange(len(rows))] for each in chosen]
        at = np.random.default_rng(2).uniform(0.0, 1.0, (2000, 2))
        new = np.concatenate([units.parameters(at), units.contexts(rows)], axis=1)
        new = new if gate.axes is None else new @ np.asarray(gate.axes).T
        truth = np.interp(himmelblau(rows, at) - units.level(rows), gate.warp.returns, gate.warp.scores)
        errors = [gp.predict_mean(each, new) - truth for each in (gate.process, exact)]
        return {
            "contexts": contexts,
            "rollouts": rollouts,
            "points": int(np.asarray(gate.process.mask).sum()),
            "same choice, share": float(np.mean(chosen[0] == chosen[1])),
            "mean return, sparse and exact": [float(np.mean(each)) for each in taken],
            "error over the parameters, sparse and exact": [float(np.sqrt(np.mean(each**2))) for each in errors],
            "exact posterior, CPU s": round(spent, 1),
        }

    return compare()


def child(*arguments: str) -> dict[str, Any]:
    """What a process of its own prints as JSON."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run(sizes: list[int], contexts: list[int], out: Path) -> None:
    """The table, whose rows replace those of the same size that are there."""
    rows = {}
    if out.exists():
        with out.open(encoding="utf-8") as file:
            rows = {(int(row["contexts"]), int(row["rollouts"])): row for row in csv.DictReader(file)}
    for size in sizes:
        for count in contexts:
            rows[count, size] = child("child", "--rollouts", str(size), "--contexts", str(count))
            print(rows[count, size], flush=True)
            with out.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows[key] for key in sorted(rows))


def draw(source: Path, figure: Path) -> None:
    """Seconds of a step and memory against the number of rollouts."""
    import matplotlib.pyplot as plt

    with source.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    panels, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for contexts, label in ((0, "no context"), (1, "one context number")):
        own = [row for row in rows if int(row["contexts"]) == contexts]
        sizes = [int(row["rollouts"]) for row in own]
        left.plot(sizes, [float(row["last_step_s"]) for row in own], "o-", label=label)
        right.plot(sizes, [float(row["peak_gb"]) for row in own], "o-", label=label)
    for axis, name in ((left, "CPU seconds of a step at the end"), (right, "most memory, GB")):
        axis.set(xscale="log", yscale="log", xlabel="rollouts in all", ylabel=name)
        axis.grid(alpha=0.3)
    left.legend()
    panels.savefig(figure, dpi=130)


def main() -> None:
    """One of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "gate", "draw", "child"))
    parser.add_argument("source", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[20_000])
    parser.add_argument("--contexts", type=int, nargs="+", default=[0, 1], choices=(0, 1))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.command == "child":
        print(json.dumps(measured(given.contexts[0], given.rollouts[0])))
    elif given.command == "gate":
        print(json.dumps(compare_gates(given.contexts[-1], given.rollouts[0]), indent=1))
    elif given.command == "draw":
        draw(given.source, FIGURE)
    else:
        run(given.rollouts, given.contexts, given.out)


if __name__ == "__main__":
    main()
