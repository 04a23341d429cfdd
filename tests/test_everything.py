"""`hpsde reproduce all`: what it runs, that it says how long, goes on after an interruption, and writes every page."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hpsde.cli import main
from hpsde.experiments import everything, provenance
from hpsde.experiments.everything import FRESH_SEED, PARTS, Order, Part
from hpsde.experiments.gauntlet import rows as gauntlet_rows
from hpsde.experiments.gauntlet.runner import Done
from hpsde.experiments.plan import EXPERIMENTS

TINY = ["--seeds", "1", "--rollouts", "24", "--workers", "1", "--quiet"]


def test_parts_are_all_that_is_published():
    assert list(PARTS) == ["toys", "puddle", "reach", "ablation", "gauntlet", "peers", "gallery"]
    assert set(everything.PAGES) == set(EXPERIMENTS)


@pytest.mark.parametrize("seeds", [1, 5, 20])
def test_seeds_had_no_part_in_any_choice_and_settings_are_the_defaults(tmp_path, seeds):
    order = Order(tmp_path, seeds=seeds)
    for part in PARTS.values():
        jobs = part.jobs(order)
        assert len(jobs) == len(part.left(order)) == len({getattr(job, "key", None) or job.name for job in jobs})
        assert min(job.seed for job in jobs) == FRESH_SEED
        assert all(getattr(job, "rollouts", None) is None for job in jobs if part.name in ("gauntlet", "toys"))
        if part.name in ("gauntlet", "gallery"):
            assert {job.key[3] for job in jobs} == {"{}"}


def test_five_seeds_take_less_than_two_hours_on_two_cores(tmp_path):
    """By what the parts say of themselves; the time is that of the published rows."""
    assert sum(part.minutes(Order(tmp_path, seeds=5, workers=2)) for part in PARTS.values()) < 120.0


def test_the_list_says_how_long_it_takes(tmp_path, capsys):
    assert main(["reproduce", "all", "--list", "--seeds", "5", "--workers", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name} " in said for name in PARTS)
    assert f"seeds from {FRESH_SEED}" in said
    assert "minutes" in said
    assert not any(tmp_path.iterdir())


@pytest.fixture
def fake(monkeypatch):
    """The ablation alone, of which every run is made up, in this process; it is interrupted after three runs, once."""
    made = []

    def do(jobs, workers):
        for job in jobs:
            if len(made) == 3:
                made.append("stopped")
                raise KeyboardInterrupt
            made.append(job.key)
            known = {"cell": job.cell, "family": "ridges", "hopeless": False, "seed": job.seed, "method": job.method}
            found = {"solutions": 2, "found": 2, "options": 2, "coverage": 1.0, "surplus": 0, "exact": True}
            rest = {"settings": job.key[3], "regret": 0.1, "measures": {}, "doubts": "", "error": ""}
            yield Done(job, known | found | rest | {"learner_seconds": 1.0, "steps": 3})

    table = replace(everything.ABLATION, do=do)
    part = table.part("made up", lambda order: 1.0)
    monkeypatch.setitem(PARTS, "ablation", part)
    return SimpleNamespace(made=made, part=part)


def test_an_interrupted_command_goes_on_where_it_was(tmp_path, fake, capsys):
    given = ["reproduce", "all", "--parts", "ablation", "--out", str(tmp_path), *TINY]
    assert main(given) == 130
    assert "interrupted in ablation after 3 of" in capsys.readouterr().err
    order = Order(tmp_path, 1, workers=1, rollouts=24)
    assert len(fake.part.left(order)) == len(fake.part.jobs(order)) - 3
    assert main(given) == 0
    done = [each for each in fake.made if each != "stopped"]
    assert len(done) == len(set(done)) == len(fake.part.jobs(order))  # none was done twice
    path = tmp_path / "benchmarks/results/ablation.csv"
    assert provenance.read(path).is_present
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert provenance.made_text(provenance.present()) in page
    before, counted = path.read_bytes(), len(fake.made)
    assert main([*given, "--report-only"]) == 0
    assert (path.read_bytes(), len(fake.made)) == (before, counted)


def test_runs_of_other_defaults_are_not_mixed(tmp_path, fake, capsys):
    path = tmp_path / "benchmarks/results/ablation.csv"
    given = ["reproduce", "all", "--parts", "ablation", "--out", str(tmp_path), *TINY]
    assert main(given) == 130
    note = provenance.made_file(path)
    note.write_text(note.read_text().replace('"epsilon": 3.0', '"epsilon": 0.5'))
    assert main(given) == 2
    assert "other: `epsilon` (0.5, now 3.0)" in capsys.readouterr().err


def test_a_real_part_writes_its_page_and_the_table(tmp_path, monkeypatch):
    """Three real runs: a task of the gallery, of the gauntlet and of the peers each."""
    monkeypatch.setattr(everything, "CELLS", {"ridges-2-at-60": everything.CELLS["ridges-2-at-60"]})
    monkeypatch.setattr(everything, "GALLERY", ("throw",))
    monkeypatch.setattr(everything, "TASKS", ("cec-f4",))
    monkeypatch.setattr(everything, "PEERS", {name: everything.PEERS[name] for name in ("hpsde", "nelder-mead")})
    given = ["reproduce", "all", "--parts", "gallery", "gauntlet", "peers", "--out", str(tmp_path), *TINY]
    assert main(given) == 0
    for name in ("gallery", "gauntlet", "peers"):
        path = tmp_path / f"benchmarks/results/{name}.csv"
        assert not any(row["error"] for row in gauntlet_rows.read_rows(path))
        assert provenance.made_text(provenance.present()) in path.with_suffix(".md").read_text(encoding="utf-8")
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "two ridges, 60 | 1 |" in table
    assert "The gauntlet on seed 20000 and peers on seed 20000: Made by hpsde" in table
    pictures = {path.name for path in (tmp_path / "docs/images").iterdir()}
    assert {"gauntlet.png", "gauntlet-budgets.png", "peers.png"} <= pictures


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "games"], "unknown part 'games'"),
        (["--tasks", "puddle"], "go with one experiment"),
        (["--rollouts", "3"], "--rollouts must be at least 20"),
        (["--report-only"], "no rows to report on"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, capsys, arguments, message):
    assert main(["reproduce", "all", "--out", str(tmp_path / "none"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert main(["reproduce", "toys", "--parts", "gallery"]) == 2
    assert "--parts goes with" in capsys.readouterr().err


def test_a_part_knows_what_is_left_of_an_experiment(tmp_path):
    part = PARTS["toys"]
    assert isinstance(part, Part)
    assert part.minutes(Order(tmp_path, seeds=2, workers=4)) == pytest.approx(
        len(part.jobs(Order(tmp_path, seeds=2))) * EXPERIMENTS["toys"].seconds / 4.0 / 60.0
    )
