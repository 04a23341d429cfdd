"""The page of an experiment: a template of text, filled with tables and numbers from the rows alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

import numpy as np

from hpsde.errors import FileFormatError
from hpsde.experiments import statistics
from hpsde.experiments.claims import (
    MARGIN_SHARE,
    Comparison,
    JudgedClaim,
    OpenParameters,
    compare,
    judge_claims,
    judge_open_parameters,
    margin_of,
)
from hpsde.experiments.figures import FIGURES, MAPS, ROUTES, picture_name, picture_of
from hpsde.experiments.plan import DEFAULT, Claim, Experiment
from hpsde.experiments.provenance import Made, made_text, read, seeds_text
from hpsde.experiments.rows import Row, Runs, failed, failures, runs_of, values
from hpsde.experiments.runner import SETTINGS
from hpsde.experiments.statistics import Interval, estimate
from hpsde.learners.hireps import HiREPSSettings
from hpsde.runs.files import read_json, replacing
from hpsde.settings import short_names
from hpsde.tasks import make_task

NOTHING = "no runs"
FORMS = {
    "options": ".3g",
    "rollouts to settle": ".4g",
    "learner seconds": ".2g",
    "collision-free": ".4g",
    "gaps": ".3g",
    "families": ".3g",
    "success": ".3g",
    "strict success": ".3g",
    "both sides": ".3g",
}
"""How quantities are written in the table of methods; others with six digits."""


def rows_file(experiment: Experiment, out: Path) -> Path:
    """Where the rows of an experiment lie in its folder."""
    return out / f"{experiment.name}.csv"


def write_page(experiment: Experiment, out: Path, page: Path, rows: Sequence[Row]) -> None:
    """Write the page; it names the figures and the rows in `out` by relative paths."""
    page.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(os.path.relpath(out, page.parent)).as_posix()
    with replacing(page) as unfinished:
        made = read(rows_file(experiment, out))
        unfinished.write_text(make_page(experiment, rows, read_json(out / SETTINGS), folder, made), encoding="utf-8")


def make_page(
    experiment: Experiment, rows: Sequence[Row], settings: Mapping[str, Any], folder: str, made: Made | None = None
) -> str:
    """The page as text. `folder` is where rows and figures lie, as seen from the page; `made`: what made the rows."""
    runs = runs_of(rows)
    judged = judge_claims(experiment, rows)
    open_parameters = judge_open_parameters(settings, experiment.own_variants)
    filled = {
        "claims": claims_table(experiment, judged, open_parameters),
        "comparisons": "\n\n".join(comparisons_table(each) for each in judged),
        "open_parameters": open_parameters_table(open_parameters),
        "methods": _per_task(experiment, runs, methods_table),
        "ablations": "\n\n".join(
            f"### {task}\n\n{ablations_table(experiment, runs, task, settings)}" for task in experiment.tasks
        ),
        "figures": figures_text(experiment, runs, folder),
        "failures": failures_text(runs),
        "made": made_text(made),
        "seeds_text": seeds_text(seed for _, _, seed in runs),
        "rows": f"{folder}/{rows_file(experiment, Path()).name}",
        "settings": f"{folder}/{SETTINGS}",
        "runs": str(len(runs)),
        "seeds": str(len({seed for _, _, seed in runs})),
        "resamples": f"{statistics.RESAMPLES:,}",
        "least_seeds": str(statistics.LEAST_SEEDS),
        "margins": ", ".join(f"{margin_of(runs, experiment, task):.2g} on {task}" for task in experiment.tasks),
        "margin_share": f"{MARGIN_SHARE:.0%}".replace("%", " %"),
        "best": f"{experiment.best[experiment.tasks[0]]:g}",
        "rollouts": _rollouts(experiment, settings),
        "tuned": tuned_text(experiment, settings),
        "flattening": _least_flattening(experiment, runs),
        "minutes": f"{core_seconds(runs) / 60.0:.0f}",
    }
    filled |= {f"verdict_{each.claim.name}": each.verdict for each in judged}
    filled |= {"verdict_C7": open_parameters.verdict}
    template = files("hpsde.experiments").joinpath(experiment.page).read_text(encoding="utf-8")
    try:
        return Template(template).substitute(filled)
    except (KeyError, ValueError) as error:
        raise FileFormatError(
            f"the template {experiment.page} has a placeholder that means nothing: {error}"
        ) from error


def tuned_text(experiment: Experiment, settings: Mapping[str, Any]) -> str:
    """Which settings of HiREPS were others than its defaults, on each task."""
    defaults = short_names(HiREPSSettings())
    parts = []
    for task in experiment.tasks + experiment.extra_tasks:
        known = settings.get(task, {}).get("hireps")
        if known is None:
            continue
        own = [
            f"`{name}={value!r}`"
            for name, value in known.items()
            if name in defaults and name != "features" and value != defaults[name]
        ]
        parts.append(f"{', '.join(own) or 'its defaults'} on {task}")
    return f"HiREPS has {'; '.join(parts)}." if parts else "HiREPS has no runs."


def core_seconds(runs: Runs) -> float:
    """What the runs took in learner and task, in all."""
    return sum(
        (run[-1]["learner_seconds"] or 0.0) + (run[-1]["task_seconds"] or 0.0)
        for run in runs.values()
        if not failed(run)
    )


def claims_table(experiment: Experiment, judged: Sequence[JudgedClaim], open_parameters: OpenParameters) -> str:
    """One line for each claim: its verdict, and that on every task."""
    lines = []
    for each in judged:
        deciding = [c for c in each.comparisons if c.decides]
        by_task = [statistics.overall(c.verdict for c in deciding if c.task == task) for task in experiment.tasks]
        lines.append([each.claim.name, each.claim.text, each.claim.quantity, f"**{each.verdict}**", *by_task])
    tasks = experiment.tasks
    quantity, verdict = "settings that differ between tasks", f"**{open_parameters.verdict}**"
    lines.append(["C7", "the only open parameter is O_max", quantity, verdict, *([""] * len(tasks))])
    return table(["claim", "what it says", "compared quantity", "verdict", *tasks], lines)


def comparisons_table(judged: JudgedClaim) -> str:
    """All comparisons of a claim, those that decide first; under a heading."""
    lines = []
    for c in sorted(judged.comparisons, key=lambda c: not c.decides):
        names = [f"`{each}`" if isinstance(each, str) else f"{each:g}" for each in c.pair]
        second = _interval(c.second) if isinstance(c.pair[1], str) else "-"
        verdict = f"**{c.verdict}**" if c.decides else c.verdict or "-"
        difference = _interval(c.difference, _difference_form(c))
        lines.append([c.task, c.quantity, *names, _interval(c.first), second, difference, _note(c, verdict)])
    header = [
        "task",
        "quantity",
        "first",
        "second",
        "IQM of the first",
        "of the second",
        "first less second",
        "verdict",
    ]
    return f"### {judged.claim.name}: {judged.claim.text}: {judged.verdict}\n\n{table(header, lines)}"


def _difference_form(comparison: Comparison) -> str:
    """Two digits for small differences of returns, which have many zeros; no more than four for others."""
    small = comparison.difference is not None and abs(comparison.difference.value) < 10.0
    return "+.2g" if small and comparison.quantity.endswith("return") else "+.4g"


def _note(comparison: Comparison, verdict: str) -> str:
    return f"{verdict}; {comparison.failed} failed runs" if comparison.failed else verdict


def open_parameters_table(found: OpenParameters) -> str:
    """Which settings differ between the tasks, and in which methods."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for variant, names in found.differing.items():
        groups.setdefault(names, []).append(f"`{variant}`")
    lines = [[", ".join(f"`{each}`" for each in names) or "none", ", ".join(group)] for names, group in groups.items()]
    return table(["settings that differ between tasks", "methods"], lines) if lines else f"{NOTHING} on several tasks"


def _per_task(experiment: Experiment, runs: Runs, make: Any) -> str:
    parts = []
    for task in experiment.tasks + experiment.extra_tasks:
        extra = " (not in the paper)" if task in experiment.extra_tasks else ""
        parts.append(f"### {task}{extra}\n\n{make(experiment, runs, task)}")
    return "\n\n".join(parts)


def methods_table(experiment: Experiment, runs: Runs, task: str) -> str:
    """What every method reached on a task."""
    lines = []
    for variant in experiment.variants_of(task):
        if variant in experiment.ablations:
            continue
        if not values(runs, task, variant.name, "final return") and not failures(runs, task, variant.name):
            continue
        lines.append([f"`{variant.name}`", *(_cell(runs, task, variant.name, column) for column in experiment.columns)])
    if not lines:
        return NOTHING
    parts = (table(["method", *experiment.columns], lines), best_text(experiment, runs, task), doubts_text(runs, task))
    return "\n\n".join(part for part in parts if part)


def doubts_text(runs: Runs, task: str) -> str:
    """How many runs of each method ended in doubt; nothing where none did."""
    ended: dict[str, list[bool]] = {}
    for (of, variant, _), run in runs.items():
        if of == task and not failed(run) and run[-1].get("doubts") is not None:
            ended.setdefault(variant, []).append(run[-1]["doubts"] > 0)
    found = [f"`{variant}` {sum(each)} of {len(each)}" for variant, each in ended.items() if any(each)]
    return f"Runs that ended with doubts (`policy.doubts`): {', '.join(found)}." if found else ""


def best_text(experiment: Experiment, runs: Runs, task: str) -> str:
    """Which method has the highest final return, by how much, and whether that is more than chance."""
    names = [variant.name for variant in experiment.variants_of(task) if variant not in experiment.ablations]
    means = {name: _of(runs, task, name, "final return") for name in names}
    ranked = sorted((-mean.value, name) for name, mean in means.items() if mean is not None)
    if len(ranked) < 2:
        return ""
    (_, first), (_, second) = ranked[:2]
    highest = Claim("", "", "final return", +1, ((first, second),))
    found = compare(runs, experiment, highest, task, (first, second), "final return", True)
    return (
        f"The highest final return is that of `{first}`: {_interval(found.difference, '+.2g')} above that of "
        f"`{second}`, the next one, seed by seed ({found.verdict})."
    )


def _cell(runs: Runs, task: str, variant: str, column: str) -> str:
    if column == "worst":
        final = values(runs, task, variant, "final return")
        return f"{min(final.values()):.6g}" if final else "-"
    if column == "solved":
        return _solved(runs, task, variant)
    return _interval(_of(runs, task, variant, column), FORMS.get(column, ".6g"))


def _as_run(settings: Mapping[str, Any], task: str, name: str, planned: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of the default's settings an ablation had changed when it ran; as planned where that was not kept."""
    kept = settings.get(task, {})
    if name not in kept or DEFAULT not in kept:
        return planned
    default = kept[DEFAULT]
    changed = {key: value for key, value in kept[name].items() if key in default and value != default[key]}
    return {key: changed.pop(key) for key in planned if key in changed} | changed


def ablations_table(
    experiment: Experiment, runs: Runs, task: str, settings: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """The default and every ablation, with the change of the final return against the default, paired by seed.

    `settings` are those that the runs had.
    """
    default = values(runs, task, DEFAULT, "final return")
    lines = []
    for name, changes in ((DEFAULT, {}), *((each.name, each.changes) for each in experiment.ablations)):
        final = values(runs, task, name, "final return")
        if not final and not failures(runs, task, name):
            continue
        changed = _as_run(settings, task, name, changes)
        seeds = sorted(set(final) & set(default))
        change = estimate(np.array([final[seed] - default[seed] for seed in seeds])) if seeds and changes else None
        lines.append(
            [
                f"`{name}`",
                ", ".join(f"`{key}={value!r}`" for key, value in changed.items()) or "the default",
                _interval(_of(runs, task, name, "final return")),
                _interval(change, "+.2g") if changes else "",
                _interval(_of(runs, task, name, "options"), ".3g"),
                _solved(runs, task, name),
                _interval(_of(runs, task, name, "ESS"), ".3g"),
            ]
        )
    header = ["ablation", "settings", "final return", "change", "options", "solved", "ESS at the end"]
    return table(header, lines) if lines else NOTHING


def figures_text(experiment: Experiment, runs: Runs, folder: str) -> str:
    """The figures of every task that has runs."""
    return "\n\n".join(
        f"{_picture_text(task, folder)}"
        f"![{task}: returns and options against rollouts]({folder}/{FIGURES}/{task}-curves.png)"
        for task in experiment.tasks + experiment.extra_tasks
        if any(name == task for name, _, _ in runs)
    )


def _picture_text(task: str, folder: str) -> str:
    picture = picture_of(make_task(task))
    shown = {MAPS: "returns, rollouts and options of one run", ROUTES: "routes of one run of each method"}
    if picture is None:
        return ""
    return f"![{task}: {shown[picture]}]({folder}/{FIGURES}/{picture_name(task, picture)})\n\n"


def failures_text(runs: Runs) -> str:
    """Which runs failed, and of what."""
    lost = [(*key, run[-1]["error"]) for key, run in runs.items() if failed(run)]
    if not lost:
        return "No run failed."
    lines = [[task, f"`{variant}`", str(seed), error] for task, variant, seed, error in lost]
    return f"{len(lost)} of {len(runs)} runs failed:\n\n{table(['task', 'method', 'seed', 'error'], lines)}"


def _of(runs: Runs, task: str, variant: str, quantity: str) -> Interval | None:
    found = values(runs, task, variant, quantity)
    usable = [value for value in found.values() if np.isfinite(value)]
    return estimate(np.array(usable)) if usable else None


def _least_flattening(experiment: Experiment, runs: Runs) -> str:
    """The smallest lambda of the default in any iteration, by task."""
    parts = []
    for task in experiment.tasks:
        of_default = [run for (name, variant, _), run in runs.items() if (name, variant) == (task, DEFAULT)]
        found = [row["flattening"] for run in of_default for row in run if row["flattening"] is not None]
        parts.append(f"{min(found):.2g} on {task}" if found else f"{NOTHING} on {task}")
    return ", ".join(parts)


def _rollouts(experiment: Experiment, settings: Mapping[str, Any]) -> str:
    """'600 initial and 900 further ones', by what the settings of a run on the first task say."""
    found = next(iter(settings.get(experiment.tasks[0], {}).values()), None)
    if found is None:
        return NOTHING
    return f"{found['initial_rollouts']} initial and {found['rollouts'] - found['initial_rollouts']} further ones"


def _solved(runs: Runs, task: str, variant: str) -> str:
    found = values(runs, task, variant, "solved")
    return f"{sum(found.values()):.0f} of {len(found) + failures(runs, task, variant)}"


def _interval(of: Interval | None, form: str = ".6g") -> str:
    """'0.9994 [0.9991, 0.9996]'."""
    if of is None:
        return NOTHING
    return f"{of.value:{form}} [{of.low:{form}}, {of.high:{form}}]"


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = [header, ["---"] * len(header), *([text.replace("|", "\\|") for text in line] for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
