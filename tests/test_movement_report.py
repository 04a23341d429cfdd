"""Movements to learned postures: counted against `move` itself, with homes that lead round the pole or into it."""

import csv
import importlib.util
import io
import math
from pathlib import Path

import numpy as np
import pytest

from arm_policies import CENTRE, four_postures
from hpsde import Run
from hpsde.errors import InputError
from hpsde.tasks import make_task, movement_report
from hpsde.tasks.kinematics import KUKA_LWR, Pole, arm_from_dh
from hpsde.tasks.movement_report import as_csv, as_text
from hpsde.tasks.mujoco_arm import KUKA_HOMES, Movement, move
from hpsde.tasks.reach import FAMILIES, KUKA_POSTURES, POLE, reach_task

pytest.importorskip("mujoco")

TASK = make_task("reach")
GOALS = TASK.evaluation_contexts()
report = movement_report.movement_report


class Fixed:
    """The same angles for every goal: `angles` [O, J]."""

    def __init__(self, *angles):
        self.angles = np.array(angles)

    def option_means(self, goals):
        return np.repeat(self.angles[:, None], len(goals), axis=1)


@pytest.fixture
def moves(monkeypatch):
    """Movements that always go well but for every second one; the list of what was asked for."""
    asked = []

    def made(arm, pole, q_from, q_to, seconds):
        asked.append((pole, tuple(q_from), tuple(q_to), seconds))
        even, n = len(asked) % 2 == 0, len(asked)
        return Movement(not even, even, 0.1 - 0.01 * n, 0.001 * n, np.zeros(1), np.zeros((1, 7)))

    monkeypatch.setattr(movement_report, "move", made)
    return asked


def test_movements_from_home_to_the_known_postures_arrive_and_touch_nothing():
    rows = report(TASK, four_postures(), every=62, seconds=2.0)
    assert [(row.option, row.family, row.goals, row.successes) for row in rows] == [
        (option, family, 3, 3) for option, family in enumerate(FAMILIES)
    ]
    assert all((row.arrived, row.touched) == (1.0, 0.0) for row in rows)
    postures = four_postures().option_means(GOALS[::62])[2]
    moved = [move(KUKA_LWR, POLE, KUKA_HOMES[-1.0], q, seconds=2.0) for q in postures]
    assert rows[2].clearance == min(each.clearance for each in moved)
    assert rows[2].error == max(each.error for each in moved)


def test_arm_that_starts_on_the_wrong_side_runs_into_the_pole():
    swapped = {1.0: KUKA_HOMES[-1.0], -1.0: KUKA_HOMES[1.0]}
    row = report(TASK, Fixed(KUKA_POSTURES["left, elbow up"]), every=62, homes=swapped)[0]
    assert (row.successes, row.touched, row.arrived) == (1, 1.0, 0.0)
    assert row.clearance < 0.0
    assert row.error > 0.1


def test_only_successes_are_moved_from_the_home_of_their_side(moves):
    left, right = (np.array(KUKA_POSTURES[f"{side}, elbow up"]) for side in ("left", "right"))
    nowhere = np.zeros(7)
    rows = report(TASK, Fixed(left, nowhere, right), seconds=1.5)
    near = int(np.sum(np.linalg.norm(GOALS - CENTRE, axis=1) < 0.02))  # the postures were made for the centre
    assert 0 < near < len(GOALS)
    assert [row.successes for row in rows] == [near, 0, near]
    assert [row.goals for row in rows] == [len(GOALS)] * 3
    homes = [tuple(KUKA_HOMES[side]) for side in (1.0, -1.0)]
    assert moves == [(POLE, homes[0], tuple(left), 1.5)] * near + [(POLE, homes[1], tuple(right), 1.5)] * near


def test_shares_and_worst_cases_are_those_of_the_movements(moves):
    rows = report(TASK, four_postures(), every=31)  # 5 goals: movements 1 to 5, 6 to 10, ...
    assert [row.arrived for row in rows] == [3 / 5, 2 / 5, 3 / 5, 2 / 5]
    assert [row.touched for row in rows] == [2 / 5, 3 / 5, 2 / 5, 3 / 5]
    np.testing.assert_allclose([row.clearance for row in rows], [0.05, 0.0, -0.05, -0.1], atol=1e-12)
    np.testing.assert_allclose([row.error for row in rows], [0.005, 0.01, 0.015, 0.02])


def test_tables_say_what_was_found(moves):
    rows = report(TASK, Fixed(KUKA_POSTURES["right, elbow down"], np.zeros(7)), every=62)
    assert as_text(rows).split("\n") == [
        "option  family             successes  arrive  touch  least clearance  worst error",
        "0       right, elbow down  1 of 3     100%    0%     90.0 mm          1.00 mrad",
        "1       none               0 of 3     -       -      -                -",
    ]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert tuple(read[0]) == movement_report.OptionMovements._fields
    assert (read[0]["family"], float(read[0]["clearance"]), read[0]["successes"]) == (
        "right, elbow down",
        rows[0].clearance,
        "1",
    )
    assert [read[1][name] for name in ("family", "arrived", "touched", "clearance", "error")] == [""] * 5
    assert math.isnan(rows[1].arrived)


def test_another_arm_needs_its_homes():
    dh = [(0.0, 0.3, 0.0, np.pi / 2), (0.0, 0.0, 0.4, 0.0), (0.0, 0.0, 0.4, 0.0), (0.0, 0.0, 0.1, 0.0)]
    arm = arm_from_dh(dh, [(-2.8, 2.8)] * 4, bend=(1, 2, 3), name="four joints")
    task = reach_task(arm, Pole(2.0, 0.0, 0.05))
    q = np.array([0.0, 0.3, 0.5, 0.0])
    with pytest.raises(InputError, match=r"homes: expected the angles .* as the arm is four joints"):
        report(task, Fixed(q))
    with pytest.raises(InputError, match=r"homes: expected one for the side 1 \(left\) .* got \[1.0\]"):
        report(task, Fixed(q), homes={1.0: q})
    with pytest.raises(InputError, match=r"homes must have shape \[2, 4\]"):
        report(task, Fixed(q), homes={1.0: q[:3], -1.0: q[:3]})
    with pytest.raises(InputError, match="every"):
        report(TASK, four_postures(), every=0)
    assert report(task, Fixed(q), homes={1.0: q, -1.0: q})[0].successes == 0


def test_example_reads_a_run_and_writes_the_table(tmp_path, moves, capsys):
    path = Path(__file__).parent.parent / "examples" / "reach_movements.py"
    spec = importlib.util.spec_from_file_location("reach_movements", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for task in ("reach", "toy-double"):
        with Run.create(tmp_path / task, task):
            pass
        four_postures().save(tmp_path / task / "policy.npz")
    example.main([str(tmp_path / "reach"), "--every", "62", "--seconds", "1", "--csv", str(tmp_path / "table.csv")])
    rows = report(TASK, four_postures(), every=62)
    assert capsys.readouterr().out.split("\n")[1].split("  ")[0] == "0"
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + len(rows)
    assert {seconds for *_, seconds in moves[:12]} == {1.0}
    with pytest.raises(SystemExit, match="expected the run of an arm"):
        example.main([str(tmp_path / "toy-double")])
