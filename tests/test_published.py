"""What made the published figures: noted beside the rows, said on the pages, and compared with the present defaults."""

import json
from pathlib import Path

import pytest

import hpsde
from hpsde import FileFormatError, InputError
from hpsde.experiments import ablation, provenance, summary
from hpsde.experiments.everything import WITH_TABLE
from hpsde.experiments.gauntlet import rows as gauntlet_rows
from hpsde.experiments.gauntlet.runner import GauntletJob
from hpsde.experiments.peers import report as peers_report
from hpsde.experiments.provenance import Made, made_text, present

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"
PUBLISHED = {
    "experiments/toys/toys.csv": "docs/reproduction.md",
    "experiments/puddle/puddle.csv": "docs/reproduction_puddle.md",
    "experiments/reach/reach.csv": "docs/reproduction_reach.md",
    "benchmarks/results/defaults.csv": "README.md",
    "benchmarks/results/gauntlet.csv": "benchmarks/results/gauntlet.md",
    "benchmarks/results/peers.csv": "benchmarks/results/peers.md",
    "benchmarks/results/ablation.csv": "benchmarks/results/ablation.md",
    "benchmarks/results/gallery.csv": "benchmarks/results/gallery.md",
}


# ---------------------------------------------------------------- what is published


@pytest.mark.parametrize("rows", PUBLISHED)
def test_a_page_says_what_made_it(rows):
    made = provenance.read(ROOT / rows)
    assert made is not None
    text = made_text(made)
    assert text in (ROOT / PUBLISHED[rows]).read_text(encoding="utf-8")
    assert ("Made by an older version" in text) == (not made.is_present or made.version != hpsde.__version__)


def test_settings_of_published_rows_are_the_present_defaults():
    assert [rows for rows in PUBLISHED if not provenance.read(ROOT / rows).is_present] == []


def test_every_note_is_that_of_a_published_page():
    notes = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.made.json") if ".venv" not in path.parts}
    notes = {note for note in notes if not note.startswith(("runs/", "build/"))}
    assert notes == {f"{rows.removesuffix('.csv')}{provenance.SUFFIX}" for rows in PUBLISHED}


@pytest.mark.parametrize("page", WITH_TABLE, ids=str)
def test_the_table_of_a_page_is_what_the_rows_give(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert summary.in_place(text, RESULTS) == text


def test_generated_pages_are_what_the_rows_give():
    peers, single = RESULTS / "peers.csv", RESULTS / "ablation.csv"
    page = peers_report.make_page(
        gauntlet_rows.read_rows(peers), "peers.csv", "../../docs/images/peers.png", provenance.read(peers)
    )
    assert (RESULTS / "peers.md").read_text(encoding="utf-8") == page
    page = ablation.make_page(gauntlet_rows.read_rows(single), single)
    assert (RESULTS / "ablation.md").read_text(encoding="utf-8") == page


# ---------------------------------------------------------------- notes


def test_a_note_is_kept_and_protects_rows_of_other_defaults(tmp_path):
    rows = tmp_path / "new" / "rows.csv"
    assert "Nobody has noted" in made_text(provenance.read(rows))
    provenance.keep(rows)
    assert provenance.read(rows) == present()
    rows.write_text("some\n")
    provenance.keep(rows)
    known = json.loads(provenance.made_file(rows).read_text())
    known["settings"]["epsilon"] = 9.5
    provenance.made_file(rows).write_text(json.dumps(known))
    with pytest.raises(InputError, match=r"other: `epsilon` \(9.5, now 3.0\)"):
        provenance.keep(rows)
    rows.unlink()
    provenance.keep(rows)
    assert provenance.read(rows).is_present


def test_rows_that_nobody_noted_stay_unknown(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("some\n")
    provenance.keep(rows)
    assert provenance.read(rows) is None


def test_the_sentence_says_what_has_changed():
    now = present()
    assert made_text(now) == f"Made by hpsde {hpsde.__version__} with its defaults."
    same = made_text(now._replace(version="0.0.1"))
    assert "older version**, hpsde 0.0.1, with settings that are the defaults" in same
    settings = dict(now.settings) | {"kl_bound": 9.5, "assignment": "soft"}
    del settings["gp_axes"]
    text = made_text(Made("0.0.1", settings))
    assert f"`kl_bound` (9.5, now {now.settings['kl_bound']})" in text
    assert "new: `gp_axes`; gone: `assignment`" in text
    assert "epsilon" not in text


def test_seeds_in_words():
    assert provenance.seeds_text([3]) == "seed 3"
    assert provenance.seeds_text([4, 3, 3]) == "seeds 3, 4"
    assert provenance.seeds_text([1, 2, 3, 9, 11, 12]) == "seeds 1 to 3, 9, 11, 12"


# ---------------------------------------------------------------- the table


def run_row(task, seed, **changes):
    """The last row of a run of the paper's tasks."""
    same = {"task": task, "variant": "hpsde-reps-gp", "method": "hpsde-reps-gp", "seed": seed, "rollouts": 1050}
    reached = {"greedy_mean_return": 1.0, "options_kept": 2, "coverage": 1.0, "surplus": 0, "status": "done"}
    return same | reached | changes


def test_the_table_follows_from_the_rows(tmp_path):
    path = tmp_path / summary.DEFAULTS
    runs = [
        run_row("toy-double", 1, rollouts=900, greedy_mean_return=0.5),
        run_row("toy-double", 1),
        run_row("toy-double", 2, surplus=1),
        run_row("toy-double", 3, status="failed"),
        run_row("toy-double", 1, variant="hireps", greedy_mean_return=0.0),
        run_row("reach", 1, success=0.5, both_sides=0.8, rollouts=4000),
        run_row("reach", 2, success=0.9, both_sides=0.7, rollouts=4000),
    ]
    summary.write_defaults(path, runs, "hpsde-reps-gp")
    assert [line["seed"] for line in summary.read_defaults(path)] == [1.0, 2.0, 1.0, 2.0]
    table = summary.table(tmp_path)
    assert "1,050 | 2 | 100 % | 50 % | regret 0 % in the median, 0 % at most |" in table
    assert "7 joints, 4,000 | 2 | 50 % | - | within 2 cm of 70 % of the goals |" in table
    assert len(table.splitlines()) == 4
    assert "Nobody has noted" in summary.sources(tmp_path)
    text = summary.in_place(f"a\n{summary.BEGIN}old{summary.END}\nb", tmp_path)
    assert text.startswith("a\n")
    assert text.endswith("\nb")
    assert table in text
    assert "old" not in text
    with pytest.raises(FileFormatError, match="expected a page with the lines"):
        summary.in_place("no marks", tmp_path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileFormatError, match="last rows"):
        summary.read_defaults(path)


def test_a_blind_policy_has_the_known_return():
    assert summary.blind_return("toy-double") == pytest.approx(0.9733, abs=5e-4)
    assert summary.blind_return("toy-triple") == pytest.approx(99.5645, abs=5e-3)


# ---------------------------------------------------------------- the ablation


def ablation_row(cell, variant, seed, regret, exact=True):
    job = GauntletJob(cell, seed, settings=ablation.VARIANTS[variant], rollouts=420)
    return {"cell": cell, "seed": seed, "settings": job.key[3], "regret": regret, "exact": exact, "error": ""}


def test_an_ablation_is_paired_with_the_defaults():
    given = [
        ablation_row(cell, variant, seed, regret)
        for variant, regret in ((ablation.DEFAULT, 0.01), ("softmax gate", 0.1), ("no scouts", 0.001))
        for cell in ("ridges-3", "cec-f4")
        for seed in (1, 2, 3)
    ]
    softmax, scouts = ablation.changes([*given, ablation_row("noise-30", "softmax gate", 1, 1.0)])  # has no partner
    assert (softmax.variant, softmax.runs, scouts.variant) == ("softmax gate", 6, "no scouts")
    assert softmax.loss == pytest.approx((0.09, 0.09, 0.09))
    assert softmax.times == pytest.approx((10.0, 10.0, 10.0))
    assert (ablation.verdict(softmax), ablation.verdict(scouts)) == ("gains", "loses")
    page = ablation.make_page(given, Path("no/rows.csv"))
    assert "| softmax gate | `gate='softmax'` | 6 | +0.0900 [+0.0900, +0.0900] | 10.00 [10.00, 10.00] | gains |" in page
    assert "Of 2 departures: 1 gains, 1 loses, 0 undecided." in page
    mixed = ablation.Change("x", 2, (0.1, 0.05, 0.2), (0.5, 0.4, 0.6))
    assert ablation.verdict(mixed) == "gains and loses"
    assert ablation.verdict(mixed._replace(loss=(0.0, -1.0, 1.0), times=(1.0, 0.5, 2.0))) == "undecided"
