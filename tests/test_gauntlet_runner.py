"""The benchmark of the gauntlet: rows as runs are done, none done twice, errors counted, targets from rows alone."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hpsde import FileFormatError
from hpsde.experiments.gauntlet import figures, report, rows, runner, targets
from hpsde.experiments.gauntlet.runner import GauntletJob
from hpsde.tasks.gauntlet import CELLS, Cell

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gauntlet.py"
TINY = ("ridges-2-at-60", "bumps-2d-3-at-100")


@pytest.fixture(scope="module")
def script():
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def arguments(out, *more):
    return [
        "--cells",
        *TINY,
        "--seeds",
        "1",
        "--method",
        "creps",
        "--rollouts",
        "40",
        "--workers",
        "0",
        "--out",
        str(out),
        *more,
    ]


@pytest.fixture(scope="module")
def tiny(script, tmp_path_factory):
    """The file of two small runs, with page and pictures."""
    out = tmp_path_factory.mktemp("gauntlet") / "rows.csv"
    script.main(arguments(out))
    return out


def row(cell="ridges-4", family="ridges", **changes):
    """A run without fault."""
    same = {"cell": cell, "family": family, "hopeless": False, "seed": 1, "method": "hpsde-reps-gp", "settings": "{}"}
    sizes = {"context_size": 1, "parameter_size": 1, "rollouts": 1050, "solutions": 4}
    scored = {"found": 4, "options": 4, "coverage": 1.0, "surplus": 0, "exact": True, "regret": 0.001}
    rest = {"measures": {}, "doubts": "", "learner_seconds": 2.0, "steps": 10, "error": ""}
    return same | sizes | scored | rest | changes


def judged(given, runs, text):
    return next(each for each in targets.judge_all(given) if (each.target.runs, each.target.text) == (runs, text))


# ---------------------------------------------------------------- runs


def test_every_run_is_a_row(tiny):
    found = rows.read_rows(tiny)
    assert [each["cell"] for each in found] == list(TINY)
    for each in found:
        assert each["error"] == ""
        assert each["seed"] == 10_000
        assert each["rollouts"] == 40
        assert each["settings"] == '{"rollouts":40}'
        assert each["steps"] >= 2
        assert each["learner_seconds"] > 0.0
        assert each["coverage"] == pytest.approx(each["found"] / each["solutions"], rel=1e-4)
        assert each["exact"] == (each["coverage"] == 1.0 and each["surplus"] == 0)


def test_runs_that_have_a_row_are_not_done_again(script, tiny, tmp_path, monkeypatch, capsys):
    def execute(job):
        asked.append(job.name)
        return runner.Done(job, {**known, "cell": job.cell, "seed": job.seed})

    asked, known, out = [], rows.read_rows(tiny)[0], tmp_path / "rows.csv"
    out.write_bytes(tiny.read_bytes())
    monkeypatch.setattr(runner, "execute", execute)
    script.main(arguments(out))
    assert asked == []
    assert out.read_bytes() == tiny.read_bytes()
    assert "2 of 2 runs are in" in capsys.readouterr().err
    with out.open("a", encoding="utf-8") as file:
        file.write("ridges-2-at-60,budgets,0,100")  # its writer was killed
    script.main(arguments(out, "--first-seed", "10001", "--only-report"))
    assert asked == []
    script.main(arguments(out, "--seeds", "2"))
    assert asked == [f"{name}@10001" for name in TINY]
    assert [(each["cell"], each["seed"]) for each in rows.read_rows(out)] == [
        (name, seed) for seed in (10_000, 10_001) for name in TINY
    ]
    script.main(arguments(out, "--fresh"))
    assert asked[2:] == [f"{name}@10000" for name in TINY]
    assert len(rows.read_rows(out)) == 4


def test_an_error_is_a_row_that_counts_as_wrong(script, tmp_path, monkeypatch, capsys):
    def make(seed):
        raise ValueError(f"no task\nwith seed {seed}")

    monkeypatch.setitem(CELLS, "broken", Cell("broken", "ridges", make, "a cell that cannot be made"))
    out = tmp_path / "rows.csv"
    script.main(["--cells", "broken", "--seeds", "2", "--workers", "0", "--out", str(out)])
    found = rows.read_rows(out)
    assert [each["error"] for each in found] == ["with seed 10000", "with seed 10001"]
    assert not any(each["exact"] for each in found)
    assert judged(found, "ridges and bumps, up to 9 solutions", "exact").runs == 2
    assert judged(found, "ridges and bumps, up to 9 solutions", "regret at most 1 %").figure == 0.0
    assert judged(found, "runs that went wrong", "with a doubt").verdict == targets.MISSED
    assert "failed" in capsys.readouterr().out
    assert "- broken@10000: with seed 10000" in out.with_suffix(".md").read_text(encoding="utf-8")


def test_workers_are_processes_and_errors_come_back():
    jobs = [GauntletJob(TINY[0], seed, settings={"no_such_setting": 1}) for seed in (0, 1)]
    done = list(runner.run_all(jobs, workers=1))
    assert [each.job for each in done] == jobs
    assert all("no_such_setting" in each.row["error"] for each in done)
    assert all(each.row["rollouts"] == 60 and each.row["solutions"] == 2 for each in done)


def test_quick_has_cells_of_all_families(script):
    assert len(script.QUICK) == len(set(script.QUICK)) == 20
    assert set(script.QUICK) <= set(CELLS)
    assert {CELLS[name].family for name in script.QUICK} == {cell.family for cell in CELLS.values()}


def test_unknown_cells_are_named(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["--cells", "no-such-cell"])
    assert "unknown cells no-such-cell" in capsys.readouterr().err


# ---------------------------------------------------------------- rows


def test_rows_survive_the_file(tmp_path):
    path = tmp_path / "new" / "rows.csv"
    given = [
        row(measures={"success": 0.25}, doubts="noise+few", settings='{"kl_bound":2.5}'),
        row(hopeless=True, coverage=None, regret=None, exact=False, error='a "quoted", text'),
    ]
    for each in given:
        rows.append_row(path, each)
    assert rows.read_rows(path) == given
    assert rows.read_rows(tmp_path / "absent.csv") == []
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="no column cell"):
        rows.read_rows(path)


def test_settings_have_one_text_whatever_their_order():
    assert rows.settings_text({"b": 1, "a": None}) == rows.settings_text({"a": None, "b": 1}) == '{"a":null,"b":1}'
    assert GauntletJob("x", 3, "m", {"b": 1}, 40).key == ("x", 3, "m", '{"b":1,"rollouts":40}')


# ---------------------------------------------------------------- targets and page


def test_targets_count_the_runs_they_are_about():
    plain = "ridges and bumps, up to 9 solutions"
    given = [row(seed=seed) for seed in range(49)] + [row(exact=False, surplus=1, regret=0.02)]
    assert judged(given, plain, "exact").verdict == targets.REACHED  # 49 of 50
    assert judged(given, plain, "regret at most 1 %").verdict == targets.MISSED
    assert judged([*given, row(exact=False)], plain, "exact").verdict == targets.MISSED
    others = [
        row(solutions=12),
        row(parameter_size=4),
        row(rollouts=300),
        row(hopeless=True),
        row("noise-10", "hard"),
    ]
    assert judged(others, plain, "exact").runs == 0
    assert judged(others, plain, "exact").verdict == targets.UNKNOWN
    assert judged(others, "hard returns", "exact").runs == 1


@pytest.mark.parametrize(
    ("cell", "family", "runs"),
    [
        ("ridges-3-at-300", "budgets", "300 rollouts"),
        ("ridges-2-at-100", "budgets", "100 rollouts"),
        ("ridges-2-at-60", "budgets", "60 rollouts"),
        ("ridges-4-at-3000", "budgets", None),
        ("many-10-all", "many", "10 parameters"),
        ("many-20-three", "many", "20 and 30 parameters, three directions"),
        ("many-20-all", "many", None),
        ("walls-3", "movements", "walls"),
        ("arm-panda", "movements", "arms"),
    ],
)
def test_cells_belong_to_targets(cell, family, runs):
    about = {each.target.runs for each in targets.judge_all([row(cell, family)]) if each.runs}
    assert about == {"runs that went right"} | ({runs} if runs else set())
    assert cell in CELLS
    assert CELLS[cell].family == family


def test_movements_are_judged_by_their_measures():
    walls = [row("walls-2", "movements", measures={"collision_free": free}) for free in (1.0, 0.99, 0.5)]
    assert_allclose(judged(walls, "walls", "collision-free, median").figure, 0.99)
    assert_allclose(judged(walls, "walls", "collision-free, worst run").figure, 0.5)
    failed = [*walls, row("walls-2", "movements", coverage=0.0, regret=None, error="E")]
    assert judged(failed, "walls", "collision-free, worst run").figure == 0.0
    assert judged(failed, "walls", "all gaps found").figure == 0.75


def test_doubts_are_wanted_where_runs_went_wrong():
    wrong = [
        row(coverage=0.5, doubts="few"),
        row(regret=0.2, doubts="few+noise"),
        row(hopeless=True, coverage=None, regret=None, doubts="noise"),
        row(coverage=0.0, regret=None, error="E"),
    ]
    right = [row(regret=0.1), row(exact=False, surplus=2, doubts="noise")]
    assert judged(wrong + right, "runs that went wrong", "with a doubt").figure == 0.75
    assert judged(wrong + right, "runs that went right", "with a doubt").figure == 0.5
    header, lines = report.doubts_table(wrong + right)
    assert len(header) == 3
    assert [list(line) for line in lines] == [
        ["noise", "2", "1"],
        ["few", "2", "0"],
        ["any", "3", "1"],
        ["runs", "4", "2"],
    ]
    assert report.doubts_sentence(wrong + right) == (
        "A doubt comes with 3 of the 4 runs that went wrong and with 1 of the 2 runs that went right."
    )


def test_sentences_follow_the_rows():
    good, bad = [row(), row()], [row("noise-10", "hard", exact=False, coverage=0.5), row("noise-10", "hard")]
    assert report.families_sentence(good + bad) == (
        "Exactly the right options are found most often in ridges (100 %) and least often in hard (50 %)."
    )
    assert "100 % of the runs of every family" in report.families_sentence([*good, row("noise-10", "hard")])
    assert report.cells_sentence(good) == "In 1 of 1 cells every run finds exactly the right options."
    assert report.cells_sentence(good + bad).endswith("The lowest share is in noise-10 (50 %).")
    text = report.targets_sentence(targets.judge_all(good + bad))
    assert text.startswith("4 of 6 targets that have runs are reached.")
    assert "hard returns: exact;" in text


def test_hopeless_cells_have_a_line_of_their_own():
    given = [row(), row("constant-noise", "hard", hopeless=True, exact=False, coverage=None, regret=None)]
    _, lines = report.families_table(given)
    assert [line[0] for line in lines] == ["ridges", "hopeless"]
    assert lines[1][3] == lines[1][5] == "-"
    assert report.cells_table(given)[1][1][0] == "constant-noise (hopeless)"


def test_page_names_rows_and_pictures(tiny):
    page = tiny.with_suffix(".md").read_text(encoding="utf-8")
    assert "(rows.csv)" in page
    assert "(images/gauntlet.png)" in page
    assert (tiny.parent / "images" / "gauntlet.png").stat().st_size > 1000
    assert (tiny.parent / "images" / "gauntlet-budgets.png").stat().st_size > 1000


# ---------------------------------------------------------------- pictures


def test_options_of_first_runs_are_kept_and_drawn(tiny):
    means = figures.read_means(figures.options_file(tiny))
    ridges, bumps = (f'{name}@10000 creps {{"rollouts":40}}' for name in TINY)
    assert set(means) == {ridges, bumps}
    ridge, bump = (CELLS[name].make(10_000) for name in TINY)
    assert means[ridges].shape[1:] == (len(runner.picture_contexts(ridge)), 1)
    assert means[bumps].shape[1:] == (len(runner.picture_contexts(bump)), 2)
    drawn = figures.drawn_runs(rows.read_rows(tiny), means)
    assert [axes.get_title(loc="left").split(":")[0] for axes in figures.panels_figure(drawn, means).axes] == [
        each["cell"] for each in drawn
    ]


def test_only_what_fits_on_paper_is_kept(tmp_path):
    assert runner.is_drawn(CELLS["ridges-2"].make(0))
    assert runner.is_drawn(CELLS["bumps-2d-4"].make(0))
    assert not runner.is_drawn(CELLS["bumps-3d-4"].make(0))
    path = tmp_path / "options.npz"
    figures.keep_means(path, "a@1", np.zeros((2, 1, 2)))
    figures.keep_means(path, "b@1", np.ones((1, 1, 2)))
    assert {name: each.shape for name, each in figures.read_means(path).items()} == {"a@1": (2, 1, 2), "b@1": (1, 1, 2)}


def test_bars_have_a_place_for_every_cell():
    given = [row(), row("noise-10", "hard", regret=None, coverage=0.0, error="E", exact=False)]
    given += [row("constant-noise", "hard", hopeless=True, regret=None, coverage=None, exact=False)]
    shares, _ = figures.bars_figure(given).axes
    assert [each.get_text() for each in shares.get_yticklabels()] == [
        "ridges-4",
        "noise-10",
        "constant-noise (hopeless)",
    ]
    assert_allclose([bar.get_width() for bar in shares.patches], [1.0, 0.0, 0.0])
    assert len(figures.overview_figure(given).axes[0].patches) == 3
