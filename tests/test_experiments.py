"""Experiments: what is run, never twice; rows, claims and the page that follows from them."""

import os
import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import handmade
from hpsde import FileFormatError, InputError, UnknownNameError
from hpsde.cli import main
from hpsde.experiments import benchmark, claims, figures, measures, plan, report, rows, runner
from hpsde.experiments.plan import Claim, Experiment, PlannedRun, Variant
from hpsde.experiments.pool import Queue
from hpsde.experiments.provenance import read
from hpsde.experiments.rows import DONE, FAILED
from hpsde.experiments.statistics import FAILS, HOLDS, UNDECIDED
from hpsde.learners.creps import CREPS
from hpsde.runs.files import read_csv, read_json
from hpsde.tasks import make_task

ROOT = Path(__file__).parent.parent
PAGES = {"toys": "reproduction.md", "puddle": "reproduction_puddle.md", "reach": "reproduction_reach.md"}
GOOD, BAD = Variant("good", "hpsde-reps-softmax"), Variant("bad", "hpsde-reps-softmax", {"weight_sum": "one"})
SMALL = Experiment(
    name="small",
    description="two variants on a toy",
    tasks=("toy-double",),
    best={"toy-double": 1.0},
    variants=(GOOD, BAD),
    claims=(
        Claim("C1", "good is better than bad", "final return", +1, (("good", "bad"),), ("mean return",)),
        Claim("C2", "good settles sooner", "rollouts to settle", -1, (("good", "bad"),), ("options",)),
        Claim("C3", "bad has fewer options", "options", +1, (("good", "bad"),)),
        Claim("C4", "both are alike", "mean return", 0, (("good", "bad"),)),
    ),
    page="toys.md",
    seconds=1.0,
    columns=plan.TOYS.columns,
    panels=plan.TOYS.panels,
    seeds=8,
    rollouts=120,
)
RETURNS = {"good": 0.99, "bad": 0.95}


def made_up(run: PlannedRun, example: Path | None = None, offset: float = 0.0) -> list[rows.Row]:
    """Rows of a run that nothing was learned in: `good` settles at 700 rollouts, `bad` at 800."""
    settles = {"good": 1, "bad": 2}.get(run.variant.name, 0)
    end = RETURNS.get(run.variant.name, 0.9) + 1e-4 * run.seed + offset
    return [
        {
            "task": run.task,
            "variant": run.variant.name,
            "method": run.variant.method,
            "seed": run.seed,
            "iteration": iteration,
            "rollouts": 600 + 100 * iteration,
            "batch_mean_return": 0.9,
            "greedy_mean_return": end - 0.01 * (2 - iteration),
            "greedy_median_return": end,
            "options_kept": 4 - min(iteration, settles),
            "options_used": 2,
            "coverage": 1.0,
            "surplus": 1,
            "ess": 100.0,
            "temperature": 0.5,
            "flattening": float("nan"),
            "learner_seconds": 3.0 * iteration,
            "task_seconds": 0.1,
            "status": DONE,
        }
        for iteration in range(3)
    ]


def on_task(run: PlannedRun, example: Path | None = None) -> list[rows.Row]:
    """Rows of a run on the puddle or the arm: HPSDE has three solutions and few collisions, the others have one."""
    ours = run.variant.name == plan.DEFAULT
    noise = 1e-3 * run.seed
    measured = {
        "puddle": {"collision_free": (0.99 if ours else 0.5) + noise / 100.0, "length": 8.0},
        "reach": {"success": 0.9, "strict_success": 0.5, "both_sides": 0.4 if ours else 0.0},
    }[run.task]
    returns = (-1.0 if ours else -3.0) - noise - np.array([0.5, 0.25, 0.75, 0.0])
    more = measured | {"solutions_found": 3 if ours else 1, "best_option_return": -0.5}
    first, *_, last = made_up(run)
    return [
        {**(last if i == 3 else first), **more, "rollouts": 600 + 300 * i, "greedy_mean_return": float(each)}
        for i, each in enumerate(returns)
    ]


def failure(run: PlannedRun) -> list[rows.Row]:
    names = {"task": run.task, "variant": run.variant.name, "method": run.variant.method, "seed": run.seed}
    return [names | {"status": FAILED, "error": "E: no"}]


def recorded(run: PlannedRun, example: Path | None = None) -> list[rows.Row]:
    """`made_up`, noting the run in a file; one seed fails and one kills its process, once each."""
    with open(os.environ["RECORD"], "a+", encoding="utf-8") as file:
        file.seek(0)
        before = file.read().split()
        file.write(f"{run.name}\n")
    if run.name == "toy-double--good--101" and run.name not in before:
        return failure(run)
    if run.name == "toy-double--bad--100" and run.name not in before:
        os._exit(3)
    return made_up(run)


def all_rows(offset=0.0):
    return [row for run in SMALL.runs() for row in made_up(run, None, offset if run.variant is BAD else 0.0)]


class Bar:
    """A progress bar that is interrupted when so many are done."""

    def __init__(self, stop=10**6):
        self.stop, self.told = stop, []

    def update(self, done, **fields):
        self.told.append((done, fields))
        if done >= self.stop:
            raise KeyboardInterrupt


# ---------------------------------------------------------------- what is run


def test_runs_of_a_plan():
    toys = plan.find_experiment("toys")
    runs = toys.runs()
    assert len(runs) == len({run.name for run in runs})
    assert {run.seed for run in runs} == set(range(100, 120))
    assert {(run.task, run.variant.name) for run in runs if run.task == "toy-double"} == {
        ("toy-double", each.name) for each in toys.variants + toys.ablations
    }
    assert {run.variant.name for run in runs if run.task == "toy-curve"} <= set(toys.extra_variants)
    groups = [(run.task, run.variant.name) for run in runs]
    assert len(set(groups)) == 1 + sum(one != other for one, other in pairwise(groups))
    few = toys.runs(2, ("toy-triple",), ("ml-em",))
    assert [run.name for run in few] == ["toy-triple--ml-em--100", "toy-triple--ml-em--101"]


def test_names_that_are_none_are_refused():
    with pytest.raises(UnknownNameError, match="toys"):
        plan.find_experiment("games")
    with pytest.raises(UnknownNameError, match="toy-double"):
        plan.TOYS.runs(tasks=("puddle",))
    with pytest.raises(UnknownNameError, match="hireps"):
        plan.PUDDLE.runs(variants=("ml-em",))
    with pytest.raises(UnknownNameError, match="ml-em"):
        plan.TOYS.runs(variants=("hpsde",))
    with pytest.raises(InputError, match="at least 1"):
        plan.TOYS.runs(seeds=0)


def test_every_ablation_changes_settings_that_exist_and_only_those():
    runs = plan.TOYS.runs(seeds=1)
    found = runner.settings_of(runs)
    for task in plan.TOYS.tasks:
        default = found[task][plan.DEFAULT]
        for name, changes in plan.ABLATIONS.items():
            changed = {key: value for key, value in found[task][name].items() if value != default[key]}
            assert changed == {key: value for key, value in changes.items() if default[key] != value}
            assert changed


@pytest.fixture
def quick(monkeypatch):
    """Every method is the baseline with one option: it compiles ten times as fast as HPSDE."""

    def make_learner(method, task, seed, **given):
        return CREPS(task.context_size, task.parameter_size, initial=task, seed=seed, **given)

    monkeypatch.setattr(runner, "make_learner", make_learner)


def test_a_real_run_gives_a_row_per_iteration_and_keeps_its_example(tmp_path, quick):
    run = PlannedRun("toy-double", GOOD, 100, rollouts=120)
    found = runner.execute(run, tmp_path / run.name)
    assert [row["rollouts"] for row in found] == [69, *range(75, 120, 6), 120]  # a twentieth of 120 at a time
    assert all(row["status"] == DONE and np.isfinite(row["greedy_mean_return"]) for row in found)
    more = {"best_option_return", "solutions_found", "doubts"}
    assert {name for row in found for name in row} | {"error"} == set(rows.COLUMNS) | more
    assert all(row["best_option_return"] == row["greedy_mean_return"] for row in found)  # there is one option
    figure = figures.maps_figure(runner.make_task("toy-double"), tmp_path / run.name)
    surface, samples, options = figure.axes[:3]
    assert sum(len(part.get_offsets()) for part in samples.collections[1:]) == 120
    assert len(options.lines) == 2 * found[-1]["options_kept"]
    assert surface.get_title(loc="left") == "returns"


def test_rows_may_be_farther_apart_than_iterations(quick):
    found = runner.execute(PlannedRun("toy-double", GOOD, 100, rollouts=350, every=34))
    assert [row["rollouts"] for row in found] == [200, 234, 268, 302, 336, 350]  # of every 17
    assert [row["iteration"] for row in found] == [0, 2, 4, 6, 8, 9]
    every = runner.execute(PlannedRun("toy-double", GOOD, 100, rollouts=350))
    assert [row["greedy_mean_return"] for row in every if row["rollouts"] in (200, 234, 268, 302, 336, 350)] == [
        row["greedy_mean_return"] for row in found
    ]


def test_measures_of_what_options_can_do():
    puddle = make_task("puddle")
    contexts = puddle.evaluation_contexts()
    known = np.stack([solution.parameters(contexts) for solution in puddle.solutions])
    found = measures.option_measures(puddle, known, 0.75)
    returns = [puddle.evaluate(contexts, each) for each in known]
    assert_allclose(found["best_option_return"], np.mean(np.max(returns, axis=0)))
    assert found["best_option_return"] > max(map(np.mean, returns))
    assert found["solutions_found"] == 3
    assert "both_sides" not in found

    reach = make_task("reach")
    goals = reach.evaluation_contexts()
    left, _, right, _ = (solution.parameters(goals) for solution in reach.solutions)
    success = [reach.measures(goals, each)["success"] for each in (left, right)]
    assert_allclose(measures.both_sides(reach, goals, np.stack([left, right])), np.mean(success[0] & success[1]))
    half = np.where(np.arange(len(goals))[:, None] < 60, right, left)
    assert 0.0 < measures.both_sides(reach, goals, np.stack([left, half])) <= 60 / 125
    assert measures.both_sides(reach, goals, np.stack([left, left])) == 0.0


def test_what_a_run_raises_becomes_rows(monkeypatch, quick):
    def stop(task, policy):
        raise ValueError("first line\nthe end")

    monkeypatch.setattr(runner, "measure", stop)
    (row,) = runner.execute(PlannedRun("toy-double", GOOD, 100, rollouts=120))
    assert row["status"] == FAILED
    assert row["error"] == "the end"
    (row,) = runner.execute(PlannedRun("toy-double", Variant("wrong", "creps", {"no_such": 1}), 100))
    assert row["error"].startswith("hpsde.errors.UnknownNameError: unknown setting 'no_such'")


# ---------------------------------------------------------------- many runs


def test_runs_are_done_once_failures_and_deaths_are_rows_and_are_tried_again(tmp_path, monkeypatch):
    record = tmp_path / "record"
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setattr(runner, "execute", recorded)
    runs, out = SMALL.runs(3), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        runner.run_all(out, runs, 1, Bar(stop=2))
    assert record.read_text().split() == [run.name for run in runs[:2]]

    bar = Bar()
    found = rows.runs_of(runner.run_all(out, runs, 2, bar))
    assert bar.told[0][0] == 1  # of the two that were done before, one failed
    assert [done for done, _ in bar.told] == list(range(1, 7))
    assert len(found) == 6
    (lost,) = (key for key, run in found.items() if rows.failed(run))
    assert lost == ("toy-double", "bad", 100)
    assert "died" in found[lost][0]["error"]

    again = rows.runs_of(runner.run_all(out, runs, 2, Bar()))
    assert not any(rows.failed(run) for run in again.values())
    counts = {name: record.read_text().split().count(name) for name in (run.name for run in runs)}
    assert counts == {run.name: 2 if run.name.endswith(("good--101", "bad--100")) else 1 for run in runs}


def test_a_folder_with_runs_of_other_settings_is_refused(tmp_path):
    runner.keep_settings(tmp_path, SMALL.runs(1))
    runner.keep_settings(tmp_path, [PlannedRun("toy-curve", GOOD, 100, 120), *SMALL.runs(2)])
    kept = read_json(tmp_path / runner.SETTINGS)
    assert kept["toy-double"]["bad"]["weight_sum"] == "one"
    assert kept["puddle"]["good"]["max_options"] == 20  # of all tasks of the paper
    with pytest.raises(InputError, match=r"good on toy-double with another epsilon"):
        runner.keep_settings(
            tmp_path, [PlannedRun("toy-double", Variant("good", "hpsde-reps-softmax", {"epsilon": 2.0}), 1, 120)]
        )


def test_a_worker_stays_with_its_group_until_others_need_help():
    runs = [PlannedRun("toy-double", variant, seed) for variant in (GOOD, BAD) for seed in range(3)]
    queue = Queue(runs, runner.group_of)
    first, second = queue.next(None), queue.next(None)
    assert (first.variant, second.variant) == (GOOD, BAD)
    assert [queue.next(("toy-double", "bad")).seed for _ in range(2)] == [1, 2]
    assert queue.next(("toy-double", "bad")) == runs[1]
    assert queue.next(("toy-double", "good")) == runs[2]
    assert queue.next(("toy-double", "good")) is None
    assert Queue([], runner.group_of).next(None) is None


# ---------------------------------------------------------------- rows


def test_rows_come_back_from_a_file_as_they_were_rounded(tmp_path):
    path = tmp_path / "rows.csv"
    made = [*made_up(SMALL.runs()[0]), {"task": "t", "variant": "v", "method": "m", "seed": 1, "status": FAILED}]
    made[0] = made[0] | {"greedy_mean_return": 0.99999412345, "ess": 123.456789, "collision_free": 0.5}
    rows.write_rows(path, made)
    back = rows.read_rows(path)
    assert back[0]["greedy_mean_return"] == 0.99999412
    assert back[0]["ess"] == 123.46
    assert back[0]["flattening"] is None
    assert back[0]["collision_free"] == 0.5
    assert back[1]["options_kept"] == made[1]["options_kept"]
    assert back[-1]["rollouts"] is None
    rows.write_rows(tmp_path / "again.csv", back)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()
    path.write_text("task,variant\na,b\n")
    with pytest.raises(FileFormatError, match="no column method"):
        rows.read_rows(path)


@pytest.mark.parametrize(
    ("kept", "settled"), [([3, 3, 3], 600), ([4, 3, 3], 700), ([3, 4, 3], 800), ([2, 2, 3], 800), ([5], 600)]
)
def test_rollouts_to_settle(kept, settled):
    run = [{"rollouts": 600 + 100 * i, "options_kept": count} for i, count in enumerate(kept)]
    assert rows.rollouts_to_settle(run) == settled


def test_mean_return_is_the_area_under_the_curve_by_its_width():
    run = [{"rollouts": n, "greedy_mean_return": r} for n, r in ((600, 1.0), (700, 2.0), (1000, 4.0))]
    assert_allclose(rows.mean_return(run), (100 * 1.5 + 300 * 3.0) / 400)
    assert rows.mean_return(run[:1]) == 1.0


# ---------------------------------------------------------------- claims


def test_claims_are_judged_by_paired_differences():
    better, sooner, _, alike = claims.judge_claims(SMALL, all_rows())
    assert (better.verdict, sooner.verdict, alike.verdict) == (HOLDS, HOLDS, FAILS)
    (final, mean) = better.comparisons
    assert_allclose(final.difference[:3], (0.04, 0.04, 0.04), atol=1e-9)  # though the returns differ between seeds
    assert final.first.low < final.first.value < final.first.high
    assert (final.decides, mean.decides) == (True, False)
    (settle, options) = sooner.comparisons
    assert settle.difference.value == -100.0
    assert options.verdict == ""  # reported, not judged
    assert_allclose(alike.comparisons[0].margin, 0.05 * 0.1)
    worse, *_ = claims.judge_claims(SMALL, all_rows(offset=0.05))
    assert worse.verdict == FAILS
    alike = claims.judge_claims(SMALL, all_rows(offset=0.041))[3]
    assert alike.verdict == HOLDS


@pytest.mark.parametrize("name", ["puddle", "reach"])
def test_a_claim_may_compare_with_a_number(name):
    experiment = plan.find_experiment(name)
    found = [row for run in experiment.runs(8) for row in on_task(run)]
    *against_others, several = claims.judge_claims(experiment, found)
    assert {each.verdict for each in against_others} == {HOLDS}
    assert several.verdict == HOLDS
    own = several.comparisons[0]
    assert (own.pair, own.difference[:3]) == ((plan.DEFAULT, 1.0), (2.0, 2.0, 2.0))
    lost = [row | {"solutions_found": 0} for row in found]
    assert claims.judge_claims(experiment, lost)[-1].verdict == FAILS
    one = [row | {"solutions_found": 1} for row in found]
    assert claims.judge_claims(experiment, one)[-1].verdict == UNDECIDED
    failing = [row | {"status": FAILED} if row["seed"] == 101 else row for row in found]
    assert claims.judge_claims(experiment, failing)[-1].verdict == UNDECIDED
    assert claims.judge_claims(experiment, [])[-1].verdict == UNDECIDED


def test_a_failed_or_missing_run_leaves_a_claim_undecided():
    found = all_rows()
    lost = [{**row, "status": FAILED} if row["seed"] == 103 and row["variant"] == "bad" else row for row in found]
    judged = claims.judge_claims(SMALL, lost)[0]
    assert judged.verdict == UNDECIDED
    assert judged.comparisons[0].failed == 1
    assert claims.judge_claims(SMALL, [row for row in found if row["variant"] == "good"])[0].verdict == UNDECIDED
    missing = [row for row in found if (row["seed"], row["variant"]) != (103, "bad")]
    assert claims.judge_claims(SMALL, missing)[0].verdict == UNDECIDED
    few = [row for row in found if row["seed"] < 105]
    assert claims.judge_claims(SMALL, few)[0].verdict == UNDECIDED


def test_open_parameters_are_settings_that_differ_between_tasks():
    settings = {
        "a": {"m": {"max_options": 10, "kappa": 1.0}, "n": {"kappa": 1.0}},
        "b": {"m": {"max_options": 20, "kappa": 1.0}},
    }
    assert claims.judge_open_parameters(settings, ["m"]) == claims.OpenParameters({"m": ("max_options",)}, HOLDS)
    settings["b"]["m"]["kappa"] = 2.0
    assert claims.judge_open_parameters(settings, ["m"]).verdict == FAILS
    assert claims.judge_open_parameters(settings, ["n"]).verdict == UNDECIDED
    assert claims.judge_open_parameters({"a": settings["a"]}, ["m"]).verdict == UNDECIDED


def test_no_setting_of_hpsde_depends_on_the_task_beyond_what_the_task_gives():
    assert {"paper", "ml-em"} < set(plan.TOYS.own_variants)
    assert "hireps" not in plan.TOYS.own_variants
    found = claims.judge_open_parameters(runner.settings_of(plan.TOYS.runs(seeds=1)), plan.TOYS.own_variants)
    assert found.verdict == HOLDS
    assert found.differing[plan.DEFAULT] == ("features",)  # toy-curve's
    assert plan.PAPER_TASKS == ("toy-double", "toy-triple", "puddle", "reach")
    runs = [PlannedRun(task, variant, 100) for task in plan.PAPER_TASKS for variant in plan.PUDDLE.variants]
    found = claims.judge_open_parameters(runner.settings_of(runs), plan.PUDDLE.own_variants)
    assert found.verdict == HOLDS
    assert found.differing[plan.DEFAULT] == ("batch", "features", "initial_rollouts", "max_options", "rollouts")


# ---------------------------------------------------------------- figures and page


def test_curves_are_the_means_and_quartiles_of_the_seeds():
    curves = figures.curves_of(all_rows(), "toy-double", ["good", "bad", "neither"], SMALL.panels)
    assert list(curves) == ["good", "bad"]
    assert curves["good"]["return"].shape == (8, 3)
    figure = figures.curves_figure(curves, SMALL.panels, best=1.0)
    returns, lacking, options = figure.axes
    assert_allclose(returns.lines[0].get_ydata(), curves["good"]["return"].mean(axis=0))
    assert_allclose(lacking.lines[1].get_ydata(), 1.0 - curves["bad"]["return"].mean(axis=0))
    assert_allclose(options.lines[0].get_ydata(), [4, 3, 3])
    assert lacking.get_yscale() == "log"
    band = returns.collections[0].get_paths()[0].vertices[:, 1]
    assert_allclose(
        [band.min(), band.max()], np.quantile(curves["good"]["return"], [0.25, 0.75], axis=0)[[0, 1], [0, 2]]
    )


def test_a_panel_for_whatever_an_experiment_measures():
    found = [row for run in plan.REACH.runs(2, variants=(plan.DEFAULT, "hireps")) for row in on_task(run)]
    curves = figures.curves_of(found, "reach", ["hireps", plan.DEFAULT], plan.REACH.panels)
    figure = figures.curves_figure(curves, plan.REACH.panels, best=0.0)
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert len(shown) == len(plan.REACH.panels) == 6
    assert_allclose(shown["goals that options reach on both sides"].lines[1].get_ydata(), 0.4)
    assert_allclose(shown["posture families of the options"].lines[0].get_ydata(), 1.0)


def test_routes_are_drawn_for_every_example(tmp_path):
    runs = figures.example_runs(plan.PUDDLE)
    assert [run.name for run in runs] == [f"puddle--{plan.DEFAULT}--100", "puddle--hireps--100"]
    (tmp_path / runner.RUNS).mkdir()
    for run in runs:
        handmade.by_hand("softmax", parameter_size=10).save(tmp_path / runner.RUNS / f"{run.name}.npz")
    written = figures.draw_all(plan.PUDDLE, tmp_path, [row for run in runs for row in on_task(run)])
    assert sorted(path.name for path in written) == ["puddle-curves.png", "puddle-routes.png"]
    figure = figures.routes_figure(make_task("puddle"), figures._examples(plan.PUDDLE, tmp_path, "puddle"))
    assert len(figure.axes) == 4
    assert figure.axes[3].get_title(loc="left").startswith("hireps: chosen routes")
    # Start, and for every goal a route and its end.
    assert len(figure.axes[1].lines) == 1 + 2 * len(make_task("puddle").evaluation_contexts()[::10])


@pytest.mark.parametrize("name", ["puddle", "reach"])
def test_the_pages_of_the_other_experiments_say_what_the_rows_say(name):
    experiment = plan.find_experiment(name)
    found = [row for run in experiment.runs(6) for row in on_task(run)]
    settings = runner.settings_of(experiment.runs(1))
    page = report.make_page(experiment, found, settings, "there")
    assert "$" not in page
    quantity, what = ("gaps", "puddle") if name == "puddle" else ("families", "reach")
    assert f"| {what} | {quantity} | `{plan.DEFAULT}` | 1 | 3 [3, 3] | - | +2 [+2, +2] | **holds** |" in page
    assert f"](there/figures/{name}-curves.png)" in page
    assert (f"](there/figures/{name}-routes.png)" in page) == (name == "puddle")
    assert ("600 initial and 900 further ones" if name == "puddle" else "500 initial and 3500 further ones") in page
    worse = [row if row["variant"] == plan.DEFAULT else row | {"greedy_mean_return": 0.0} for row in found]
    other = report.make_page(experiment, worse, settings, "there")
    first = experiment.claims[0]
    assert f"| {first.name} | {first.text} | final return | **holds** |" in page
    assert f"| {first.name} | {first.text} | final return | **does not hold** |" in other
    assert f"**{first.name}** (does not hold)" in other
    nothing = report.make_page(experiment, [], {}, ".")
    assert "no runs" in nothing


def test_the_page_says_what_the_rows_say():
    settings = runner.settings_of(SMALL.runs(1))
    lost = [
        {**row, "status": FAILED, "error": "E: a|b"} if row["seed"] == 103 and row["variant"] == "bad" else row
        for row in all_rows()
    ]
    page = report.make_page(SMALL, lost, settings, "somewhere")
    assert "$" not in page
    assert "| C1 | good is better than bad | final return | **undecided** | undecided |" in page
    assert "| toy-double | `bad` | 103 | E: a\\|b |" in page
    assert "7 of 8" in page
    assert "](somewhere/figures/toy-double-curves.png)" in page
    whole = report.make_page(SMALL, all_rows(), settings, ".")
    assert "No run failed." in whole
    assert "### C1: good is better than bad: holds" in whole
    assert "+0.04 [+0.04, +0.04] | **holds** |" in whole
    nothing = report.make_page(SMALL, [], settings, ".")
    assert "no runs" in nothing


def test_an_ablation_is_named_by_the_settings_that_it_ran_with():
    """Not by those of today's plan."""
    toys, (ablation, *_) = plan.find_experiment("toys"), plan.find_experiment("toys").ablations
    done = {"task": "toy-double", "status": DONE, "rollouts": 9, "greedy_mean_return": 0.5, "seed": 1}
    done |= {"coverage": 1.0, "surplus": 0}
    runs = rows.runs_of([done | {"variant": name} for name in (plan.DEFAULT, ablation.name)])
    then = {"toy-double": {plan.DEFAULT: {"kappa": 1.0, "gone": 3}, ablation.name: {"kappa": 1.0, "gone": 7}}}
    assert "`gone=7`" in report.ablations_table(toys, runs, "toy-double", then)
    (key, value), *_ = ablation.changes.items()
    assert f"`{key}={value!r}`" in report.ablations_table(toys, runs, "toy-double")


def test_the_page_says_with_which_settings_the_baseline_ran():
    toys = plan.find_experiment("toys")
    then = {"toy-double": {"hireps": {"epsilon": 2.5, "window": None, "rollouts": 9}}, "toy-curve": {"hireps": {}}}
    assert report.tuned_text(toys, then) == "HiREPS has `epsilon=2.5` on toy-double; its defaults on toy-curve."
    assert report.tuned_text(toys, {}) == "HiREPS has no runs."
    now = runner.settings_of(plan.REACH.runs(1, variants=("hireps",)))
    assert report.tuned_text(plan.REACH, now) == "HiREPS has `epsilon=1.5`, `window=1000` on reach."


def test_every_experiment_has_a_page():
    assert list(PAGES) == list(plan.EXPERIMENTS)


def test_the_page_names_the_best_method_and_how_far_the_next_one_is():
    found = [
        row for seed in range(8) for variant in (GOOD, BAD) for row in made_up(PlannedRun("toy-double", variant, seed))
    ]
    told = report.best_text(SMALL, rows.runs_of(found), "toy-double")
    assert "that of `good`: +0.04 [+0.04, +0.04] above that of `bad`" in told
    assert told.endswith("(holds).")
    alone = [row for row in found if row["variant"] == "good"]
    assert report.best_text(SMALL, rows.runs_of(alone), "toy-double") == ""


def test_the_page_counts_runs_that_ended_in_doubt():
    same = {"task": "toy-double", "status": "done"}
    counts = {"sure": (0, 0), "unsure": (2, 0, 1), "old": (None, None)}
    found = [
        same | {"variant": variant, "seed": seed, "doubts": count}
        for variant, each in counts.items()
        for seed, count in enumerate(each)
    ]
    assert report.doubts_text(rows.runs_of(found), "toy-double") == (
        "Runs that ended with doubts (`policy.doubts`): `unsure` 2 of 3."
    )
    assert report.doubts_text(rows.runs_of(found), "toy-triple") == ""
    assert report.doubts_text(rows.runs_of(found[:2]), "toy-double") == ""


@pytest.mark.parametrize("name", [name for name in PAGES if (ROOT / "experiments" / name).is_dir()])
def test_the_committed_page_is_what_the_committed_rows_give(name):
    experiment, out = plan.find_experiment(name), ROOT / "experiments" / name
    found = rows.read_rows(report.rows_file(experiment, out))
    page = report.make_page(
        experiment,
        found,
        read_json(out / runner.SETTINGS),
        f"../experiments/{name}",
        read(report.rows_file(experiment, out)),
    )
    assert (ROOT / "docs" / PAGES[name]).read_text(encoding="utf-8") == page


# ---------------------------------------------------------------- the command


def test_the_command_lists_runs_reports_and_fails_where_a_run_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(plan.EXPERIMENTS, "small", SMALL)
    mended = []

    def in_this_process(runs, *more):
        yield from ((run, made_up(run) if run.variant is GOOD or mended else failure(run)) for run in runs)

    monkeypatch.setattr(runner, "in_processes", in_this_process)
    out, page = tmp_path / "out", tmp_path / "docs" / "page.md"
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "small       16    1 minutes" in listed
    arguments = ["reproduce", "small", "--seeds", "2", "--workers", "1", "--out", str(out), "--page", str(page)]
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "2 of 4 runs failed" in told.err
    assert "C1  undecided" in told.out
    assert "E: no" in page.read_text(encoding="utf-8")
    mended.append(True)
    assert main(arguments) == 0
    assert "../out/figures/toy-double-curves.png" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    page.unlink()
    assert main(["reproduce", "small", "--report-only", "--out", str(out), "--page", str(page)]) == 0
    assert page.read_bytes() == before
    assert len(rows.runs_of(rows.read_rows(out / "small.csv"))) == 4


def test_the_command_refuses_what_makes_no_sense(tmp_path, capsys):
    for arguments, message in (
        ([], "which experiment"),
        (["games"], "valid are: toys"),
        (["toys", "--seeds", "0"], "--seeds must be at least 1"),
        (["toys", "--workers", "0"], "--workers must be at least 1"),
        (["toys", "--report-only", "--out", str(tmp_path)], "no rows to report on"),
    ):
        assert main(["reproduce", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_an_interrupted_command_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stop(out, runs, workers, bar, examples):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_all", stop)
    assert main(["reproduce", "toys", "--out", str(tmp_path)]) == 130
    assert "go on with the same command again" in capsys.readouterr().err


# ---------------------------------------------------------------- benchmarks

LINES = [{"seed": 0, "x": 9.0}, {"seed": 1, "x": 2.0}, {"seed": 2, "x": 4.0}]


def test_targets_are_judged_by_their_figures():
    assert "4   wanted at least 4: met" in benchmark.Target("x", benchmark.median("x"), 4.0).judged(LINES)
    assert "2   wanted at least 3: missed" in benchmark.Target("x", benchmark.worst("x"), 3.0).judged(LINES)
    assert "3   wanted at most 3: met" in benchmark.Target("x", benchmark.warm_median("x"), 3.0, True).judged(LINES)
    assert "missed" in benchmark.Target("x", benchmark.warm_median("x"), 2.9, True).judged(LINES)
    assert "not known" in benchmark.Target("x", benchmark.warm_median("x"), 3.0, True).judged(LINES[:1])
    assert_allclose(benchmark.share("x", 4.0)(LINES), 2.0 / 3.0)


@pytest.mark.parametrize("name", ["puddle", "reach"])
def test_benchmarks_write_a_line_for_every_seed(name, tmp_path, monkeypatch, capsys):
    asked = []

    def execute(run):
        asked.append(run)
        return failure(run) if run.seed == 9 else on_task(run)

    monkeypatch.setattr(runner, "execute", execute)
    script = runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))
    given = benchmark.Benchmark(name, script["summarise"], script["TARGETS"], every=10)
    benchmark.main(given, "", tmp_path, ["--seeds", "2", "--first-seed", "7"])
    assert [(run.task, run.variant.method, run.seed, run.every) for run in asked] == [
        (name, plan.DEFAULT, seed, 10) for seed in (7, 8)
    ]
    table = read_csv(tmp_path / f"{name}.csv")
    assert list(table["seed"]) == [7, 8]
    assert_allclose(table["final_return"], [-1.007, -1.008])
    assert_allclose(table["learner_seconds"], 6.0)
    if name == "puddle":
        assert_allclose(table["early_return"], [-1.257, -1.258])
        assert_allclose(table["worst_later_return"], [-1.757, -1.758])
    said = capsys.readouterr().out
    assert said.count("wanted") == len(script["TARGETS"])
    assert {"met", "missed"} == {line.rsplit(": ")[-1] for line in said.splitlines()[1:]}
    changed = ["--seeds", "1", "--settings", '{"model_step": false}']
    benchmark.main(given, "", tmp_path, [*changed, "--out", str(tmp_path / "changed.csv")])
    assert asked[-1].variant.changes == {"model_step": False}
    with pytest.raises(SystemExit):  # they must not overwrite those of the defaults
        benchmark.main(given, "", tmp_path, changed)
    with pytest.raises(SystemExit, match="seed 9 failed: E: no"):
        benchmark.main(given, "", tmp_path, ["--seeds", "3", "--first-seed", "8", "--method", "hireps"])
    assert list(read_csv(tmp_path / f"{name}-hireps.csv")["seed"]) == [8]
