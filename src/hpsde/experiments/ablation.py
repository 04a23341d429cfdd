"""What each departure from the paper gains on the gauntlet: one setting changed at a time, paired over cells and seeds.

A run's loss is its regret (at most 1), and one more where a solution is missing or an option stands for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpsde.experiments.gauntlet.report import Table, markdown_table
from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.gauntlet.runner import GauntletJob
from hpsde.experiments.provenance import made_text, read, seeds_text

SHORT, LONG, FULL, LONGER = 420, 900, 1050, 1500  # rollouts in all; routes and curves need more, and arms still more
CELLS = {
    "ridges-3": SHORT,
    "ridges-6": SHORT,
    "curves-2": FULL,
    "curves-4": FULL,
    "crossing-2": SHORT,
    "widths-4": SHORT,
    "heights-4": SHORT,
    "partial-3": SHORT,
    "plateau-2": SHORT,
    "cauchy-3": SHORT,
    "context2-3": SHORT,
    "context2-2-parameters2": SHORT,
    "parameters2-3": SHORT,
    "parameters3-2": SHORT,
    "bumps-2d-4": SHORT,
    "bumps-2d-9": SHORT,
    "bumps-4d-3": SHORT,
    "cec-f4": SHORT,
    "noise-30": SHORT,
    "outliers-both": SHORT,
    "binary-10": SHORT,
    "integers": SHORT,
    "many-10-three": SHORT,
    "bumps-2d-3-at-100": SHORT,
    "levels-3": SHORT,
    "levels-parameters2-3": SHORT,
    "walls-2": LONG,
    "walls-3": LONG,
    "walls-4": LONG,
    "walls-6": LONG,
    "arm-kuka": LONGER,
    "arm-panda": LONGER,
}
"""Cells and their rollouts. Most have fewer than in the gauntlet, so that differences show."""

DEFAULT = "default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "joint Gaussians on weighted rollouts": {"density": "vb"},
    "no baseline over the context": {"f": "exp"},
    "options start from all assigned samples alike": {"base": "assigned"},
    "no least support of an option": {"support": 0.0},
    "REPS keeps the mean context alone": {"match_squares": False},
    "no step on the modelled return": {"model_step": False},
    "no refinement by local models": {"refine": False},
    "learning gate takes the best (UCB argmax)": {"exploration_temperature": 0.0},
    "optimism by the return's deviation": {"deviation": "return"},
    "best expected return in use": {"greedy": "expected"},
    "returns not warped": {"warp": "none"},
    "parameters scaled alone": {"whitening": False},
    "bumps without a trend": {"trend": False},
    "pi_old of the rollout's own policy": {"behaviour": "own"},
    "KL bound of the paper's code": {"epsilon": 0.3},
    "pi_old as it is": {"flattening": 1.0},
    "fixed ridge": {"ridge": 1e-3},
    "own axes, squared exponential": {"gp_axes": "own"},
    "one length in the kernel": {"gp_axes": "isotropic"},
    "reward-weighted regression": {"update": "rwr"},
    "softmax gate": {"gate": "softmax"},
    "no scouts": {"scouts": 0.0},
}
GONE: dict[str, dict[str, Any]] = {"soft assignment": {"assignment": "soft"}}
"""What there is no setting for any more; rows of that time are in the table."""
FLOOR = 1e-6  # of the regret

Losses = tuple[float, float]  # a run's loss, and the log10 of its regret


class Change(NamedTuple):
    """What a variant loses beside the defaults, over paired runs, each with a 95 % bootstrap interval.

    loss: the mean difference. times: how many times the defaults' regret its own is, in the geometric mean.
    """

    variant: str
    runs: int
    loss: tuple[float, float, float]
    times: tuple[float, float, float]


def jobs_of(
    cells: Mapping[str, int], variants: Iterable[str], seeds: Sequence[int], most: int | None = None
) -> list[GauntletJob]:
    """All runs of these variants, and those of the defaults, with at most so many rollouts."""
    return [
        GauntletJob(cell, seed, settings=VARIANTS[variant], rollouts=rollouts if most is None else min(rollouts, most))
        for cell, rollouts in cells.items()
        for variant in dict.fromkeys([DEFAULT, *variants])
        for seed in seeds
    ]


def losses_of(row: Row) -> Losses:
    """The loss and the log10 of the regret of a row; a run that raised an error has lost everything."""
    regret = 1.0 if row["error"] else float(np.clip(row["regret"], FLOOR, 1.0))
    return regret + (0.0 if row["exact"] else 1.0), float(np.log10(regret))


def interval(differences: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the mean."""
    generator = np.random.default_rng(0)
    means = differences[generator.integers(len(differences), size=(resamples, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def changes(rows: Iterable[Row]) -> list[Change]:
    """What every variant with runs loses beside the defaults."""
    named = {json.dumps(settings): name for name, settings in (VARIANTS | GONE).items()}
    found = {}
    for row in rows:
        settings = json.loads(row["settings"])
        task = row["cell"], row["seed"], settings.pop("rollouts")
        found[named.get(json.dumps(settings)), task] = losses_of(row)
    result = []
    for variant in VARIANTS | GONE:
        pairs = [
            (losses, found[DEFAULT, task])
            for (name, task), losses in found.items()
            if name == variant != DEFAULT and (DEFAULT, task) in found
        ]
        if pairs:
            loss, regret = (np.array(pairs)[:, 0] - np.array(pairs)[:, 1]).T
            least, most = (10.0**each for each in interval(regret))
            times = (10.0 ** float(regret.mean()), least, most)
            result.append(Change(variant, len(pairs), (float(loss.mean()), *interval(loss)), times))
    return result


def changes_table(found: Iterable[Change]) -> Table:
    """A line for every variant."""
    lines = []
    for each in found:
        settings = ", ".join(f"`{name}={value!r}`" for name, value in (VARIANTS | GONE)[each.variant].items())
        loss = "{:+.4f} [{:+.4f}, {:+.4f}]".format(*each.loss)
        times = "{:.2f} [{:.2f}, {:.2f}]".format(*each.times)
        lines.append([each.variant, settings, str(each.runs), loss, times, verdict(each)])
    return ("taken back", "settings", "runs", "loss, more", "regret, times", "the default"), lines


def verdict(change: Change) -> str:
    """Whether the default gains, by one of the two intervals; whether it loses; or neither for certain."""
    gains = change.loss[1] > 0.0 or change.times[1] > 1.0
    loses = change.loss[2] < 0.0 or change.times[2] < 1.0
    return "gains and loses" if gains and loses else "gains" if gains else "loses" if loses else "undecided"


def make_page(rows: Sequence[Row], rows_file: Path) -> str:
    """The page as text."""
    cells = {row["cell"] for row in rows}
    found = changes(rows)
    verdicts, words = [verdict(each) for each in found], ("gains", "loses", "gains and loses", "undecided")
    counts = {word: verdicts.count(word) for word in words if word in verdicts or word != "gains and loses"}
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    parts = [
        "# What each departure gains",
        f"One setting taken back at a time, on {len(cells)} cells of the gauntlet, {len(rows)} runs, "
        f"{seeds_text(row['seed'] for row in rows)}, paired with the defaults. This page is written by "
        f"`python benchmarks/ablation.py` from [its rows]({rows_file.name}). {made_text(read(rows_file))}",
        "The loss of a run is its regret, and one more where the options are not exactly the solutions. Intervals are "
        "of 95 %. The default *gains* where the whole interval of the loss lies above 0 or that of the regret above 1, "
        f"and *loses* where one lies wholly below. Of {len(found)} departures: {said}.",
        markdown_table(changes_table(found)),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(rows: Sequence[Row], rows_file: Path) -> Path:
    """Write the page beside the rows."""
    page = rows_file.with_suffix(".md")
    page.write_text(make_page(rows, rows_file), encoding="utf-8")
    return page
