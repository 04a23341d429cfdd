"""The arm's figures: what is pictured is what the options do; without MuJoCo or OpenGL the curves remain."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from arm_policies import CENTRE, four_postures
from hpsde import Run, Uniform, plots
from hpsde.cli import main
from hpsde.errors import HpsdeError
from hpsde.plots import arm as plot_arm
from hpsde.tasks import make_task, mujoco_arm
from hpsde.tasks.kinematics import KUKA_LWR, Pole
from hpsde.tasks.reach import FAMILIES, KUKA_POSTURES, reach_task

TASK = make_task("reach")
SMALL = (10, 9)
COLOURS = ("red", "green", "blue", "black")
ITERATIONS = {name: np.array([1.0, 2.0]) for name in ("rollouts", "batch_mean_return", "options_kept")}


@pytest.fixture
def camera(monkeypatch):
    """Tiny pictures without OpenGL: in the corners stand x of the goal and the first angle, in hundredths."""
    taken = []

    def take(arm, pole, goals, q, *, columns, width, height, azimuth):
        taken.append((arm, pole))
        column = np.zeros((len(q), height, width, 3), dtype=np.uint8)
        column[:, 0, 0, 0], column[:, -1, -1, 0] = 100 * goals[:, 0] + 0.5, 100 * np.abs(q[:, 0]) + 0.5
        return np.vstack(column)

    monkeypatch.setattr(plot_arm, "contact_sheet", take)
    monkeypatch.setattr(plot_arm, "HEIGHT", SMALL[0])
    monkeypatch.setattr(plot_arm, "WIDTH", SMALL[1])
    return taken


class Policy:
    """The same angles for every goal: `angles` [O, J]; the second option is chosen where x >= 0.6."""

    def __init__(self, angles):
        self.angles = np.asarray(angles, dtype=float)
        self.option_numbers = 3 * np.arange(1, len(self.angles) + 1)

    def option_means(self, goals):
        return np.repeat(self.angles[:, None], len(goals), axis=1)

    def choose(self, goals):
        return (goals[:, 0] >= 0.6).astype(int)


def postures(options=4, goals=3):
    """Without pictures of anything; at goal k option k % options is chosen."""
    return plot_arm.Postures(
        goals=np.arange(3.0 * goals).reshape(goals, 3),
        pictures=np.zeros((options, goals, *SMALL, 3), dtype=np.uint8),
        captions=[[f"caption {option} {goal}" for goal in range(goals)] for option in range(options)],
        chosen=np.arange(goals) % options,
        numbers=np.arange(options) + 11,
    )


class Undoubted:
    doubts = ()


def frames(axes):
    """Colour and width of the frame of each panel that has a picture."""
    panels = [each for each in axes if each.images]
    assert all(len({to_hex(spine.get_edgecolor()) for spine in each.spines.values()}) == 1 for each in panels)
    return [(to_hex(each.spines["top"].get_edgecolor()), each.spines["top"].get_linewidth()) for each in panels]


# What is pictured


def test_every_option_is_pictured_at_every_goal(camera):
    policy, goals = Policy([[0.1] * 7, [0.2] * 7, [-0.3] * 7]), np.array([[0.55, 0.0, 0.4], [0.62, 0.01, 0.5]])
    taken = plot_arm.take_pictures(TASK, policy, goals)
    assert camera == [(TASK.arm, TASK.pole)]
    assert taken.pictures.shape == (3, 2, *SMALL, 3)
    np.testing.assert_array_equal(taken.pictures[:, :, 0, 0, 0], [[55, 62]] * 3)
    np.testing.assert_array_equal(taken.pictures[:, :, -1, -1, 0], [[10, 10], [20, 20], [30, 30]])
    np.testing.assert_array_equal(taken.chosen, [0, 1])
    np.testing.assert_array_equal(taken.numbers, [3, 6, 9])


def test_captions_say_family_distance_and_contact(camera):
    beyond = np.array(KUKA_POSTURES["right, elbow down"])
    beyond[6] += 2 * np.pi  # the same posture, but for the limit of the last joint
    across = [0.0, -1.4, 0.0, 0.0, 0.0, 0.0, 0.0]  # stretched forwards, right through the pole
    taken = plot_arm.take_pictures(TASK, Policy([*KUKA_POSTURES.values(), beyond, across]), CENTRE[None])
    captions = [caption for (caption,) in taken.captions]
    assert captions[:4] == [f"{family}\n0 mm off, touches nothing" for family in FAMILIES]
    assert captions[4] == "right, elbow down\n0 mm off, beyond limits"
    flange = 0.868 * np.sin(1.4), 0.0, 0.3105 + 0.868 * np.cos(1.4)
    assert captions[5].endswith(f"{np.linalg.norm(flange - CENTRE):.2f} m off, touches")


def test_default_goals_are_the_middle_and_the_diagonal():
    np.testing.assert_allclose(plot_arm.middle_goal(TASK), CENTRE)
    goals = plot_arm.with_others(TASK, np.array([0.61, 0.0, 0.5]))
    np.testing.assert_allclose(goals[[0, 1, 4]], [[0.61, 0.0, 0.5], [0.55, -0.05, 0.4], [0.65, 0.05, 0.6]])
    assert len(np.unique(goals, axis=0)) == 5


# What is drawn


@pytest.mark.parametrize(("options", "grid"), [(1, (1, 4)), (4, (1, 4)), (5, (1, 5)), (6, (2, 4)), (10, (2, 5))])
def test_a_run_has_a_panel_for_every_option_above_its_curves(options, grid):
    assert plot_arm.panel_grid(options) == grid
    figure = plots.run_figure(TASK, Undoubted(), {}, ITERATIONS, postures(options))
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == options
    assert len([axes for axes in figure.axes if axes.lines]) == 2
    assert shown[0].get_title("left") == "goal (0.00, 1.00, 2.00)\n\noption 11, chosen\ncaption 0 0"
    assert [axes.get_title("left") for axes in shown[1:]] == [
        f"option {k + 11}\ncaption {k} 0" for k in range(1, options)
    ]


def test_frames_mark_the_choice_of_the_gate():
    figure = Figure()
    plot_arm.draw_postures(figure, postures(), COLOURS)
    assert frames(figure.axes) == [(to_hex("red"), 3.0)] + [(plot_arm.GREY.lower(), 0.5)] * 3
    drawn = np.array(frames(plot_arm.sheet_figure(postures(3, 4), COLOURS).axes)).reshape(3, 4, 2)
    colours = {option: to_hex(COLOURS[option]) for option in range(3)}
    for goal, option in enumerate([0, 1, 2, 0]):
        for row in range(3):
            assert drawn[row, goal, 0] == (colours[row] if row == option else plot_arm.GREY.lower())


def test_sheet_has_a_row_for_every_option_and_a_column_for_every_goal():
    figure = plots.posture_sheet(postures(3, 4))
    titles = np.array([axes.get_title("left") for axes in figure.axes]).reshape(3, 4)
    assert [title.split("\n")[0] for title in titles[0]] == [
        "goal (0.00, 1.00, 2.00)", "goal (3.00, 4.00, 5.00)", "goal (6.00, 7.00, 8.00)", "goal (9.00, 10.00, 11.00)",
    ]  # fmt: skip
    assert titles[1, 1] == "option 12, chosen\ncaption 1 1"
    assert titles[2, 3] == "option 13\ncaption 2 3"


# The command


@pytest.fixture
def folder(tmp_path):
    """A run of the task `reach` with a policy made by hand."""
    return stored(tmp_path / "run", "reach")


def stored(folder, what):
    with Run.create(folder, what) as run:
        asked = run.ask(np.full((4, run.config.context_size), 0.5))
        run.tell([each.id for each in asked], [-1.0, -2.0, -0.5, -1.5])
        run.store.add_step(1, np.arange(1, 5), dict.fromkeys(ITERATIONS, 1.0))
    four_postures().save(folder / "policy.npz")
    return folder


PICTURES = ["figure.png", "postures.png", *(f"option-{number}.png" for number in range(1, 5))]


def test_plot_writes_and_names_all_pictures(folder, camera, capsys):
    assert main(["plot", str(folder), "--context", "0.63", "0.01", "0.45"]) == 0
    said = capsys.readouterr()
    assert said.out.split() == [str(folder / name) for name in PICTURES]
    assert said.err == ""
    goal = np.array([0.63, 0.01, 0.45])
    for option, (angles,) in enumerate(four_postures().option_means(goal[None])):
        picture = np.round(255 * imread(folder / f"option-{option + 1}.png"))
        assert picture.shape[:2] == SMALL
        assert (picture[0, 0, 0], picture[-1, -1, 0]) == (63, int(100 * abs(angles[0]) + 0.5))


def test_pictures_of_the_run_go_to_its_folder_and_the_figure_where_it_is_wanted(folder, camera, tmp_path, capsys):
    assert main(["plot", str(folder), "--out", str(tmp_path / "other" / "mine.pdf")]) == 0
    first, *others = capsys.readouterr().out.split()
    assert first == str(tmp_path / "other" / "mine.pdf")
    assert others == [str(folder / name) for name in PICTURES[1:]]


OWN = """
from hpsde import Uniform
from hpsde.tasks.kinematics import KUKA_LWR, Pole
from hpsde.tasks.reach import reach_task


def behind_a_thin_pole():
    return reach_task(KUKA_LWR, Pole(0.3, 0.0, 0.02), Uniform([0.55, -0.05, 0.4], [0.65, 0.05, 0.6]), name="thin")
"""


def test_own_arms_are_pictured_too(camera, tmp_path, monkeypatch):
    (tmp_path / "my_arm.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = stored(tmp_path / "run", "my_arm.py:behind_a_thin_pole")
    assert main(["plot", str(folder), "--trust"]) == 0
    assert camera == [(KUKA_LWR, Pole(0.3, 0.0, 0.02))]
    assert plot_arm.is_arm(make_task("reach-mujoco"))
    assert plot_arm.is_arm(reach_task(goals=Uniform([0.5, 0.0, 0.5], [0.6, 0.1, 0.6])))
    assert not plot_arm.is_arm(make_task("puddle"))


@pytest.mark.parametrize("missing", ["mujoco", "opengl"])
def test_without_mujoco_or_opengl_options_are_drawn_and_one_line_says_what_is_missing(
    missing, folder, monkeypatch, capsys
):
    pytest.importorskip("mujoco")
    if missing == "mujoco":
        monkeypatch.setitem(sys.modules, "mujoco", None)
    else:
        monkeypatch.setattr(mujoco_arm, "import_module", broken_opengl)
    assert main(["plot", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out.split() == [str(folder / "figure.png")]
    assert said.err.count("\n") == 1
    wanted = {"mujoco": "pip install 'hpsde[sim]'", "opengl": "MUJOCO_GL=egl"}[missing]
    assert said.err.startswith("hpsde: drawn without pictures: ")
    assert wanted in said.err
    assert imread(folder / "figure.png").shape[1:] == (1440, 4)


def broken_opengl(name):
    if name == "mujoco":
        return sys.modules["mujoco"]
    raise OSError(f"no library\nfor {name}")


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (["0.6", "0.0"], "--context: expected 3 numbers, got 2"),
        (["0.6", "nan", "0.5"], "--context: expected finite numbers"),
    ],
)
def test_wrong_goals_are_refused(context, message, folder, capsys):
    assert main(["plot", str(folder), "--context", *context]) == 2
    assert message in capsys.readouterr().err


def test_tasks_whose_figure_is_of_all_contexts_refuse_one(tmp_path, capsys):
    folder = stored(tmp_path / "run", "toy-double")
    assert main(["plot", str(folder), "--context", "1.0"]) == 2
    assert "--context: expected where a figure is of one context; that of toy-double" in capsys.readouterr().err


def test_real_pictures_show_the_goal_and_differ_from_option_to_option(folder, monkeypatch, capsys):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(plot_arm, "HEIGHT", 120)
    monkeypatch.setattr(plot_arm, "WIDTH", 100)
    assert main(["plot", str(folder)]) == 0
    said = capsys.readouterr()
    if said.err:
        pytest.skip(said.err)
    pictures = [imread(folder / f"option-{number}.png")[..., :3] for number in range(1, 5)]
    for option, picture in enumerate(pictures):
        assert picture.shape == (120, 100, 3)
        red, green, blue = np.moveaxis(picture, -1, 0)
        assert np.sum((green > red + 0.25) & (green > blue + 0.25)) > 10
        assert all(np.mean(picture != other) > 0.05 for other in pictures[:option])


def test_example_pictures_the_known_postures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(sys, "argv", ["reach_postures.py", str(tmp_path / "postures.png")])
    try:
        runpy.run_path(str(Path(__file__).parent.parent / "examples" / "reach_postures.py"))
    except HpsdeError as error:
        pytest.skip(str(error))
    assert capsys.readouterr().out == "; ".join(FAMILIES) + "\n"
    assert imread(tmp_path / "postures.png").shape == (300, 4 * 270, 4)
