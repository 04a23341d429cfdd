"""What a run has to show: the file `result.json`, and a few lines for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpsde.commands._options import ExecutorOptions, print_json
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.policy.summary import option_summaries
from hpsde.runs.files import write_json
from hpsde.runs.folder import RESULT
from hpsde.runs.run import Run


def learn_and_report(run: Run, options: ExecutorOptions, saved: bool, **arguments: Any) -> None:
    """Run the rollouts that are left, then print what was found, and store it as `result.json`."""
    from hpsde.base.compilations import count_compilations

    with count_compilations() as compilations:
        policy = run.learn(**options.executor_arguments(), **arguments)
    result = _result(run, policy) | {"compilations": compilations.count}
    write_json(run.folder / RESULT, result)
    if options.json:
        print_json(result)
    elif not options.quiet:
        print(policy.summary(), describe(result, run.folder if saved else None), sep="\n\n")


def _result(run: Run, policy: HierarchicalPolicy) -> dict[str, Any]:
    """The measures of the last policy, and what it cost."""
    steps, status, earned = run.store.steps(), run.status(), policy_returns(policy)
    costs = ("rollouts", "failed", "updates", "ess", "temperature", "flattening", "lower_bound", "warm", "iteration")
    elsewhere = (*costs, "born", "died")
    last = {name: value for name, value in steps[-1].items() if name not in elsewhere}
    return {
        "task": run.config.name,
        "method": run.config.method,
        "seed": run.config.seed,
        **last,
        "options": [life | earned.get(life["number"], {}) for life in status.options],
        "best_return": status.best_return,
        "rollouts": status.done + status.failed,
        "planned": status.rollouts + status.added,
        "failed": status.failed,
        "ess": steps[-1]["ess"],
        "learner_seconds": sum(step.get("learner_seconds") or 0.0 for step in steps),
        "task_seconds": sum(step.get("task_seconds") or 0.0 for step in steps),
    }


def policy_returns(policy: HierarchicalPolicy) -> dict[int, dict[str, Any]]:
    """By the number of every option, the return expected of it, as the summary has it, and what it has earned."""
    return {
        each.option.number: {
            "expected_return": each.expected,
            "expected_deviation": each.deviation,
            "measured_return": each.option.measured_return,
            "measured_rollouts": each.option.measured_rollouts,
        }
        for each in option_summaries(policy)
    }


def describe(result: dict[str, Any], folder: Path | None) -> str:
    """The result in a few lines for a person."""
    lines = []
    if "greedy_mean_return" in result:
        mean, median = result["greedy_mean_return"], result["greedy_median_return"]
        lines.append(f"greedy return   {mean:.6g} mean, {median:.6g} median on the evaluation contexts")
        lines.append(f"options         {result['options_kept']} kept, {result['options_used']} used")
    else:
        lines.append(
            f"return          {result['batch_mean_return']:.6g} mean of the last rollouts, "
            f"{result['best_return']:.6g} the best of all"
        )
        lines.append(f"options         {result['options_kept']} kept")
    if result.get("coverage") is not None:
        lines.append(
            f"solutions       {result['coverage']:.0%} of the known ones covered; "
            f"{result['surplus']} options follow none of them"
        )
    failed = f" ({result['failed']} failed)" if result["failed"] else ""
    if result["rollouts"] < result["planned"]:
        failed += f" of {result['planned']}, then nothing was left to gain"
    lines.append(
        f"cost            {result['rollouts']} rollouts{failed}, {result['learner_seconds']:.1f} s in the learner, "
        f"{result['task_seconds']:.1f} s in the task, {result['compilations']} compilations"
    )
    if folder is not None:
        lines.append(f"saved in        {folder} (draw it: hpsde plot {folder})")
    return "\n".join(lines)
