"""Digests of what is learned: every method on every kind of task, and every choice of a setting, on small runs.

A change that must not change what is learned (a move, a new name) is checked to the bit, on one machine:

    python tests/digests.py --write before.json     # before the change
    python tests/digests.py --check before.json     # after it: names the runs that differ

Without a file's name both take tests/digests.json. On another machine the last bits may differ, and with them the
digests; the few numbers beside each digest say by how much. tests/test_digests.py compares those of some runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import compiled

# Before numpy and jax are imported. What was compiled is kept, so that the second time takes half of the first or less.
for name, value in {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(compiled.usable(Path(__file__).parents[1] / ".pytest_cache/compiled")),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
}.items():
    os.environ.setdefault(name, value)

import numpy as np

import hpsde
from hpsde.tasks import make_task

ROWS = Path(__file__).with_name("digests.json")
METHODS = (
    "hpsde-reps-gp",
    "hpsde-rwr-gp",
    "hpsde-reps-softmax",
    "hpsde-rwr-softmax",
    "hpsde-reps-marginal",
    "paper",
    "authors",
    "hireps",
    "creps",
)
# One task of each kind is learned by every method, the others by the first.
COMMON = ("toy-double", "toy-curve", "puddle", "reach", "bumps-2d-4@1")
OTHERS = (
    "toy-triple",
    "reach-mujoco",
    "rover",
    "rover-goal",
    "bank-shot",
    "bank-shot-spin",
    "throw",
    "drone",
    "drone-60",
    "compass",
    "puddle-moving",
    "ridges-4@1",
    "cec-f4@1",
    "noise-10@1",
    "binary-10@1",
    "outliers-both@1",
    "failures@1",
    "many-10-three@1",
)
# As in tests/small.py, so that the tests compile the same programs once.
SIZES: dict[str, Any] = {"initial_rollouts": 128, "rollouts": 192, "batch": 32, "max_options": 4, "seed": 3}
# Choices that no method above makes.
CHOICES: dict[str, dict[str, Any]] = {
    "f=linear": {"f": "linear", "density": "vb"},
    "f=rank": {"f": "rank"},
    "f=function": {"f": np.exp},
    "density=em": {"density": "em"},
    "eigenmaps": {"density": "vb", "embedding_dimensions": 2},
    "weight_sum=n": {"density": "vb", "weight_sum": "n"},
    "behaviour=own": {"behaviour": "own"},
    "base=assigned": {"base": "assigned"},
    "deviation=return": {"deviation": "return"},
    "greedy=expected": {"greedy": "expected"},
    "warp=rank": {"warp": "rank"},
    "axes=turned": {"gp_axes": "turned"},
    "axes=few": {"gp_axes": "few"},
    "axes=isotropic": {"gp_axes": "isotropic"},
    "features=quadratic": {"features": "quadratic"},
    "features=function": {"features": np.cos},
    "no refinement": {"refine": False, "scouts": 0.0},
    "no bounds": {"bounds": None},
}


# What these learn as stored runs: in chunks, from a database, by a learner whose state is kept.
STORED = ("hpsde-reps-gp toy-double", "hireps toy-double", "hpsde-reps-gp noise-10@1", "hpsde-reps-gp failures@1")


def runs() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """All runs by name: method, task and changed settings."""
    pairs = [(method, task) for task in COMMON for method in METHODS] + [(METHODS[0], task) for task in OTHERS]
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    found |= {f"{method} {task}": (method, task, {}) for method, task in pairs}
    found |= {f"{METHODS[0]} {COMMON[0]} {name}": (METHODS[0], COMMON[0], changes) for name, changes in CHOICES.items()}
    return found | {f"{name} stored": (*found[name][:2], {"stored": True}) for name in STORED}


def learned(method: str, task: str, changes: dict[str, Any]) -> hpsde.HierarchicalPolicy:
    """The policy of a small run."""
    sizes = {name: value for name, value in SIZES.items() if name != "max_options" or method != "creps"}
    if not changes.get("stored"):
        return hpsde.learn(make_task(task), method=method, progress=False, **(sizes | changes))
    with (
        tempfile.TemporaryDirectory() as folder,
        hpsde.Run.create(folder, task, method=method, measure=False, **sizes) as run,
    ):
        run.learn(progress=False)
        return hpsde.load_policy(Path(folder) / "policy.npz")


def digest(path: Path) -> str:
    """The digest of a policy file's content: of every array its name, type, shape and bytes, in the order of names."""
    found = hashlib.sha256()
    with np.load(path) as arrays:
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            found.update(array.tobytes())
    return found.hexdigest()


def row(policy: hpsde.HierarchicalPolicy) -> dict[str, Any]:
    """The digest of the policy's file and a few numbers: of its options, in contexts that it knows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.npz"
        policy.save(path)
        found = digest(path)
    contexts = policy.known_contexts[:50]
    numbers = {
        "options": len(policy.options),
        "mean_parameters": float(np.mean(policy.option_means(contexts))),
        "mean_expected_return": float(np.mean(policy.expected_returns(contexts))),
        "mean_deviation": float(np.mean([np.sqrt(np.trace(each.covariance)) for each in policy.options])),
    }
    return {"digest": found} | numbers


def different(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each run whose digests differ, or that one of the two has not."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            lines.append(f"{name}: only {'after' if one is None else 'before'}")
        elif one["digest"] != other["digest"]:
            changed = [f"{key} {one[key]} -> {other[key]}" for key in one if key != "digest" and one[key] != other[key]]
            lines.append(f"{name}: {'; '.join(changed) or 'the same within the numbers kept'}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Learn all, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", nargs="?", const=ROWS, type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--check", nargs="?", const=ROWS, type=Path, metavar="FILE", help="compare with the rows")
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose name has this text")
    given = parser.parse_args(arguments)
    if (given.write is None) == (given.check is None):
        parser.error("expected --write or --check")
    chosen = {name: run for name, run in runs().items() if given.only in name}
    found = {}
    for name, run in chosen.items():
        start = time.perf_counter()
        found[name] = row(learned(*run))
        print(f"{name:50} {found[name]['digest'][:12]} {time.perf_counter() - start:6.1f} s", flush=True)
    if given.write is not None:
        given.write.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    before = json.loads(given.check.read_text(encoding="utf-8"))
    lines = different({name: each for name, each in before.items() if given.only in name}, found)
    print(*lines, sep="\n", end="\n" if lines else "")
    same = sum(before.get(name, {}).get("digest") == each["digest"] for name, each in found.items())
    print(f"{same} of {len(found)} runs are the same to the bit")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
