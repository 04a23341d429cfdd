"""A run as a page shows it: rollouts, learning steps, options, and the policy in a grid of contexts. JSON throughout.

Arrays are {"type", "shape", "base64"}, lowest byte first, as a browser reads them.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from hpsde.plots.drawings import Drawing, draw_task
from hpsde.policy.answers import option_entries
from hpsde.policy.doubt_entries import doubt_entries
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.arrays import Rows
from hpsde.runs.config import RunConfig
from hpsde.runs.files import json_ready
from hpsde.runs.ledger import Ledger
from hpsde.runs.making import stored_problem

TYPES = {"f4": "<f4", "f8": "<f8", "i4": "<i4", "u1": "u1"}
CURVES = (
    "rollouts",
    "batch_mean_return",
    "greedy_mean_return",
    "options_kept",
    "ess",
    "temperature",
    "learner_seconds",
)
"""What is shown of learning steps, where they have it."""
GRID_BYTES = 1_500_000
"""What the policy in a grid of contexts may take."""
MOST_REASONS, SHORT_REASON = 1_000, 200
"""Failed rollouts whose reason is shown, and letters of each."""
CHUNK = 128
"""Contexts that are evaluated together."""


def packed(values: Any, kind: str) -> dict[str, Any]:
    """An array in JSON."""
    array = np.ascontiguousarray(np.asarray(values), dtype=TYPES[kind])
    return {"type": kind, "shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def drawn_task(config: RunConfig, trust: bool) -> Any:
    """The task that pictures are of; None where there is none, or where that would run code that is not trusted."""
    problem = stored_problem(config)
    if problem is None or (problem.task is None and not (trust and problem.is_own_task)):
        return None
    return problem.make_task()


def run_data(run: Ledger, policy: HierarchicalPolicy | None, most: int | None = None) -> dict[str, Any]:
    """All that a page shows of a run, but for the policy in contexts. `most` rollouts are shown, spread evenly."""
    rows, status, records = run.rollouts(), run.status(), run.store.steps()
    config = run.config
    return json_ready(
        {
            "folder": str(run.folder),
            "name": config.name,
            "method": config.method,
            "seed": config.seed,
            "context_size": config.context_size,
            "parameter_size": config.parameter_size,
            "settings": config.settings | {"seed": config.seed, "rollouts": status.rollouts, "batch": config.batch},
            "status": {name: getattr(status, name) for name in ("rollouts", "done", "failed", "asked", "steps")},
            "best_return": status.best_return,
            "lives": status.options,
            "curves": {name: [record.get(name) for record in records] for name in CURVES},
            "policy_options": [] if policy is None else option_entries(policy),
            "doubts": [] if policy is None else doubt_entries(policy.doubts),
            **_rollouts(rows, most),
            "reasons": _reasons(run),
            "start": start_context(rows),
            "low": _ends(rows, policy)[0],
            "high": _ends(rows, policy)[1],
        }
    )


def _rollouts(rows: Rows, most: int | None) -> dict[str, Any]:
    """Rollouts as arrays. Return is NaN where there is none; number 0 is the initial policy."""
    kept = np.arange(len(rows))
    if most is not None and len(rows) > most:
        kept = np.unique(np.append(np.linspace(0, len(rows) - 1, most - 1).astype(int), _best(rows)))
    state = np.select([rows.status == "done", rows.status == "failed"], [1, 2], 0)
    columns: dict[str, tuple[Any, str]] = {"id": (rows.id, "i4"), "number": (rows.number, "i4"), "state": (state, "u1")}
    columns |= {"step": (rows.step, "i4"), "policy": (rows.policy, "i4"), "returns": (rows.returns, "f8")}
    columns |= {"contexts": (rows.contexts, "f4"), "parameters": (rows.parameters, "f4")}
    arrays = {name: packed(values[kept], kind) for name, (values, kind) in columns.items()}
    return {"rollouts": arrays, "shown": len(kept), "all": len(rows)}


def _reasons(run: Ledger) -> dict[int, str]:
    """Why rollouts failed, in short, by their numbers; the newest ones where these are many."""
    query = "SELECT id, substr(reason, 1, ?) FROM rollouts WHERE status = 'failed' ORDER BY id DESC LIMIT ?"
    with run.store.reading() as connection:
        return {number: text or "" for number, text in connection.execute(query, [SHORT_REASON, MOST_REASONS])}


def _best(rows: Rows) -> int:
    """The place of the best rollout; the first where none is done."""
    done = rows.status == "done"
    return int(np.argmax(np.where(done, rows.returns, -np.inf))) if done.any() else 0


def start_context(rows: Rows) -> np.ndarray:
    """The context that a page shows first: that of the best rollout [S], zeros where there is none."""
    return rows.contexts[_best(rows)] if len(rows) else np.zeros(rows.contexts.shape[1])


def _ends(rows: Rows, policy: HierarchicalPolicy | None) -> tuple[np.ndarray, np.ndarray]:
    """Between what contexts lie [S], by what was seen of them."""
    known = rows.contexts if len(rows) or policy is None else policy.known_contexts
    if not len(known):
        return np.zeros(known.shape[1]), np.ones(known.shape[1])
    low, high = known.min(axis=0), known.max(axis=0)
    return low, np.where(high > low, high, low + 1.0)


def policy_at(policy: HierarchicalPolicy, contexts: np.ndarray) -> dict[str, np.ndarray]:
    """Every option in contexts [C, S]: chosen [C], means [C, O, D], expected returns and their deviations [C, O]."""
    parts = [contexts[i : i + CHUNK] for i in range(0, len(contexts), CHUNK)]
    found = [
        (policy.choose(p), policy.option_means(p), policy.expected_returns(p), policy.expected_deviations(p))
        for p in parts
    ]
    chosen, means, expected, deviation = zip(*found, strict=True)
    return {
        "chosen": np.concatenate(chosen),
        "means": np.concatenate(means, axis=1).transpose(1, 0, 2),
        "expected": np.concatenate(expected, axis=1).T,
        "deviation": np.concatenate(deviation, axis=1).T,
    }


def pictures(task: Any, contexts: np.ndarray, means: np.ndarray) -> Drawing | None:
    """Every option in every context: the pictures of parameters [C, O, D], row by row of C and O."""
    if task is None:
        return None
    count = means.shape[1]
    return draw_task(task, np.repeat(contexts, count, axis=0), means.reshape(-1, means.shape[-1]))


def scene_data(drawing: Drawing | None) -> dict[str, Any] | None:
    """What is the same in all pictures, and between what they lie."""
    if drawing is None:
        return None
    parts = [drawing.lines, drawing.points, *drawing.scene, *([] if drawing.goal is None else [drawing.goal])]
    together = np.concatenate([part.reshape(-1, drawing.lines.shape[-1]) for part in parts])
    ends = together.min(axis=0), together.max(axis=0)
    return json_ready({"scene": drawing.scene, "drag": drawing.drag, "low": ends[0], "high": ends[1]})


def context_grid(low: np.ndarray, high: np.ndarray, start: np.ndarray, per_context: int) -> tuple[list[int], list[Any]]:
    """Places of the one or two context numbers that vary most, and their values; as many as there is room for."""
    varied = np.argsort(-(high - low) / np.maximum(np.abs(start), 1e-12), kind="stable")
    axes = sorted(int(axis) for axis in varied[:2])
    room = max(int(GRID_BYTES / max(per_context, 1)), 4)
    count = min({0: 1, 1: 401, 2: 41}[len(axes)], int(room ** (1.0 / max(len(axes), 1))))
    return axes, [np.linspace(low[axis], high[axis], count) for axis in axes]


def grid_data(policy: HierarchicalPolicy, data: dict[str, Any], task: Any, numbers: bool) -> dict[str, Any]:
    """The policy's pictures in a grid of contexts; with `numbers` what it does there, too, as Python has it to the last
    bit, for a page that cannot evaluate it.
    """
    low, high, start = (np.asarray(data[name], dtype=float) for name in ("low", "high", "start"))
    count, size = len(policy.options), policy.parameter_size
    one = pictures(task, start[None], policy.option_means(start[None]).transpose(1, 0, 2))
    drawn = 0 if one is None else 4 * (one.lines[0].size + one.points[0].size)
    axes, values = context_grid(low, high, start, count * (8 * (size + 2) * numbers + drawn))
    found: dict[str, Any] = {"axes": axes, "values": [value.tolist() for value in values], "drawing": None}
    if one is None and not numbers:
        return found
    mesh = np.meshgrid(*values, indexing="ij") if axes else []
    contexts = np.repeat(start[None], max(mesh[0].size if mesh else 1, 1), axis=0)
    for axis, column in zip(axes, mesh, strict=True):
        contexts[:, axis] = column.ravel()
    if numbers:
        at = policy_at(policy, contexts)
        found["chosen"] = packed(at["chosen"], "i4")
        found |= {name: packed(at[name], "f8") for name in ("means", "expected", "deviation")}
    drawing = pictures(task, contexts, policy.option_means(contexts).transpose(1, 0, 2))
    found["drawing"] = None if drawing is None else _drawing(drawing, scene_data(drawing))
    return found


def _drawing(drawing: Drawing, scene: dict[str, Any] | None) -> dict[str, Any]:
    arrays = {"lines": packed(drawing.lines, "f4"), "points": packed(drawing.points, "f4")}
    return {**(scene or {}), **arrays, "goal": None if drawing.goal is None else packed(drawing.goal, "f4")}
