"""The comparison with peers: the counter, the measures, the bins, scipy's rivals and the rows."""

from pathlib import Path

import numpy as np
import pytest

from hpsde.experiments.gauntlet.rows import append_row, key, read_rows
from hpsde.experiments.gauntlet.runner import run_jobs
from hpsde.experiments.peers import figures, report
from hpsde.experiments.peers.bins import Bins, bin_centres, bin_count, shares
from hpsde.experiments.peers.ceiling import ceiling
from hpsde.experiments.peers.counter import BudgetSpentError, Counter
from hpsde.experiments.peers.evolution import _are_tops
from hpsde.experiments.peers.local import l_bfgs_b, nelder_mead
from hpsde.experiments.peers.measures import answered, answered_share, at_stake, peak_ratios
from hpsde.experiments.peers.methods import PEERS, compete
from hpsde.experiments.peers.process import maxima_of_mean
from hpsde.experiments.peers.rows import common_rows, evaluations, value
from hpsde.experiments.peers.runner import PeerJob, chosen_jobs, execute, lost
from hpsde.experiments.peers.search import distinct
from hpsde.experiments.peers.tasks import (
    CONTEXT_TASKS,
    NICHE_RADII,
    POINT_TASKS,
    TASKS,
    moving_himmelblau,
    peers_task,
    throw,
)

HIMMELBLAU = np.array(
    [[3.0, 2.0], [-2.8051180870, 3.1313125183], [-3.7793102534, -3.2831859913], [3.5844283403, -1.8481265270]]
)
NOWHERE = np.zeros((1, 0))
ROOT = Path(__file__).parent.parent


def two_hills(points):
    """Two smooth maxima in the unit square, at (0.2, 0.7) and (0.8, 0.3), both of height 3."""
    hills = np.array([[0.2, 0.7], [0.8, 0.3]])
    return 3.0 * np.max(np.exp(-10.0 * np.sum((points[:, None] - hills) ** 2, axis=2)), axis=1)


class TestCounter:
    def test_counts_rows_and_passes_returns_on(self):
        counter = Counter(lambda s, xi: s[:, 0] + 2.0 * xi[:, 0], 10)
        assert counter(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]])) == pytest.approx([7.0, 10.0])
        assert (counter.used, counter.left) == (2, 8)

    def test_refuses_a_batch_that_does_not_fit_and_does_not_evaluate_it(self):
        seen = []
        counter = Counter(lambda xi: seen.append(len(xi)) or np.zeros(len(xi)), 5)
        counter(np.zeros((3, 2)))
        with pytest.raises(BudgetSpentError, match="at most 2 more of 5, got 3"):
            counter(np.zeros((3, 2)))
        assert counter.used == 3
        counter(np.zeros((2, 2)))
        with pytest.raises(BudgetSpentError):
            counter(np.zeros((1, 2)))
        assert (seen, counter.left) == ([3, 2], 0)


class TestPeakRatios:
    task = peers_task("cec-f4", 1)

    def ratios(self, points):
        return list(peak_ratios(self.task, np.asarray(points, dtype=float).reshape(-1, 2), 0.01).values())

    def test_all_optima_and_no_points(self):
        assert self.ratios(HIMMELBLAU) == [1.0] * 5
        assert self.ratios([]) == [0.0] * 5

    def test_each_optimum_counts_once(self):
        assert self.ratios([HIMMELBLAU[0]] * 3 + [HIMMELBLAU[2]]) == [0.5] * 5

    def test_the_value_must_be_within_the_accuracy(self):
        # At (3, 2) the function is 200 - 37 d^2 along the first axis: d = 0.005 loses about 9e-4.
        assert self.ratios([HIMMELBLAU[0] + [0.005, 0.0]]) == [0.25, 0.25, 0.25, 0.0, 0.0]

    def test_the_point_must_be_within_the_radius(self):
        # d = 0.02 loses 0.015, less than 0.1, but is not near enough.
        assert self.ratios([HIMMELBLAU[0] + [0.02, 0.0]]) == [0.0] * 5
        assert peak_ratios(self.task, HIMMELBLAU[:1] + np.array([0.02, 0.0]), 0.1)["1e-01"] == 0.25

    @pytest.mark.parametrize("name", POINT_TASKS)
    def test_the_known_optima_are_all_found(self, name):
        task = peers_task(name, 1)
        optima = [solution.parameters(NOWHERE)[0] for solution in task.solutions if solution.required]
        assert set(peak_ratios(task, np.array(optima), NICHE_RADII[name]).values()) == {1.0}

    def test_numbers_of_global_optima_are_the_competition_s(self):
        counts = [sum(s.required for s in peers_task(name, 1).solutions) for name in POINT_TASKS]
        assert counts == [2, 5, 1, 4, 2, 18, 36, 81, 216, 12]


class TestAnswered:
    task = throw()
    contexts = np.array([[3.5], [6.0]])

    def angles(self, context):
        return [solution.parameters(np.array([[context]]))[0] for solution in self.task.solutions]

    def test_both_one_and_no_solution(self):
        both = np.array(self.angles(3.5))
        wrong = np.array([[45.0], [1.0]])
        assert answered(self.task, self.contexts, [both, both[:1]]).tolist() == [[True, True], [False, False]]
        assert answered(self.task, self.contexts, [both[1:], wrong]).tolist() == [[False, True], [False, False]]
        assert answered_share(self.task, self.contexts, [both, np.zeros((0, 1))]) == 0.5

    def test_one_per_cent_of_what_blind_parameters_lose(self):
        allowed = 0.01 * at_stake(self.task)
        assert 0.01 < allowed < 0.05  # blind throws miss by some metres
        for share, found in ((0.9, True), (1.1, False)):
            landing = 6.0 + share * allowed
            angle = np.degrees(0.5 * np.arcsin(9.81 * landing / 100.0))
            assert answered(self.task, self.contexts[1:], [np.array([[angle]])]).tolist() == [[found, False]]

    def test_an_answer_counts_for_the_nearest_solution_alone(self):
        task = moving_himmelblau()
        contexts = np.array([[-0.7], [0.4]])
        best = [np.array([s.parameters(contexts[c : c + 1])[0] for s in task.solutions]) for c in range(2)]
        assert np.all(answered(task, contexts, best))
        assert answered(task, contexts, [best[0][[2, 2]], best[1][:1]]).sum(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["throw", "moving-himmelblau"])
def test_solutions_of_the_moving_tasks_are_maxima(name):
    task = peers_task(name, 1)
    contexts = task.evaluation_contexts()
    low, high = task.parameter_bounds
    for solution in task.solutions:
        best = solution.parameters(contexts)
        assert np.all((best > low) & (best < high))
        assert task.true_returns(contexts, best) == pytest.approx(task.best_returns(contexts), abs=1e-9)
        for step in 0.01 * np.eye(task.parameter_size):
            assert np.all(task.true_returns(contexts, best + step) < task.best_returns(contexts))
            assert np.all(task.true_returns(contexts, best - step) < task.best_returns(contexts))


def test_the_throw_is_the_readme_s():
    text = (ROOT / "examples" / "own_function.py").read_text(encoding="utf-8").split("policy =")[0]
    names = {}
    exec(compile(text, "own_function", "exec"), names)
    rng = np.random.default_rng(3)
    contexts, angles = rng.uniform(3.0, 8.0, (20, 1)), rng.uniform(0.0, 90.0, (20, 1))
    expected = [names["throw"](s, xi) for s, xi in zip(contexts, angles, strict=True)]
    assert throw().true_returns(contexts, angles) == pytest.approx(expected)


class TestBins:
    def test_the_nearest_bin_answers(self):
        centres = bin_centres(np.array([3.0]), np.array([8.0]), 5)
        assert centres[:, 0] == pytest.approx([3.5, 4.5, 5.5, 6.5, 7.5])
        bins = Bins(centres, [np.full((2, 1), float(number)) for number in range(5)], np.ones(1))
        answers = bins.answers(np.array([[3.0], [4.1], [5.9], [6.1], [8.0]]))
        assert [each[0, 0] for each in answers] == [0.0, 1.0, 2.0, 3.0, 4.0]

    def test_near_is_in_units_of_the_bins(self):
        centres = bin_centres(np.array([0.0, 0.0]), np.array([1.0, 100.0]), 2)
        bins = Bins(centres, [np.full((1, 1), float(number)) for number in range(4)], np.array([0.5, 50.0]))
        assert bins.answers(np.array([[0.9, 49.0]]))[0].item() == 2.0

    def test_exact_bins_answer_more_with_more_bins_and_not_all(self):
        # The throw loses a metre for each metre that the bin's middle is off, and 0.031 m are allowed: of bins 1 m,
        # 0.5 m and 0.29 m wide, with a grid every 0.025 m.
        shares_found = [ceiling("throw", 1, budget) for budget in (250, 1000, 3000)]
        assert shares_found == pytest.approx([0.062, 0.124, 0.211], abs=0.03)

    def test_shares_add_up_to_the_budget(self):
        assert shares(302, 5) == [61, 61, 60, 60, 60]

    @pytest.mark.parametrize("size", [1, 2])
    def test_bins_grow_with_the_budget(self, size):
        counts = [bin_count(budget, size) for budget in (10, 300, 1000, 3000)]
        assert counts == sorted(counts)
        assert counts[0] >= 1


@pytest.mark.parametrize("rival", [nelder_mead, l_bfgs_b])
class TestScipyRivals:
    def test_finds_both_hills_within_the_budget(self, rival):
        counter = Counter(two_hills, 300)
        points = rival(counter, 2, 4, 1e-7)
        for hill in ([0.2, 0.7], [0.8, 0.3]):
            assert np.min(np.linalg.norm(points - hill, axis=1)) < 1e-4
        assert counter.used <= 300
        assert counter.left < 10  # searches until the counter refuses

    def test_finds_a_maximum_on_the_bound(self, rival):
        points = rival(Counter(lambda x: -np.abs(x[:, 0] - 1.0) * 7.0, 100), 1, 4, 1e-7)
        assert np.max(points) == pytest.approx(1.0, abs=1e-6)
        assert np.all((points >= 0.0) & (points <= 1.0))

    def test_reports_the_best_of_a_search_that_the_budget_ends(self, rival):
        seen = []

        def remembered(points):
            seen.extend(points)
            return two_hills(points)

        (point,) = rival(Counter(remembered, 6), 2, 4, 1e-7)
        assert two_hills(point[None]) == pytest.approx(two_hills(np.array(seen)).max())


def test_distinct_points_are_the_best_of_those_that_are_close():
    points = np.array([[0.1], [0.5], [0.5004], [0.9]])
    assert distinct(points, np.array([1.0, 2.0, 3.0, 0.0]))[:, 0].tolist() == [0.5004, 0.1, 0.9]


def test_maxima_of_a_mean():
    found = maxima_of_mean(two_hills, 2, seed=5)
    assert sorted(map(tuple, found.round(3).tolist())) == [(0.2, 0.7), (0.8, 0.3)]


def test_tops_of_a_grid():
    #  5 4 .
    #  1 . 2   (empty cells are points; the 2 has none near that is higher but the 4)
    #  . . 3
    values, cells = np.array([5.0, 4.0, 1.0, 2.0, 3.0]), np.array([0, 1, 3, 5, 8])
    assert _are_tops(values, cells, (3, 3)).tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("name", ["throw", "context2-3"])
def test_bins_share_the_budget_of_a_rival(name):
    task = peers_task(name, 7)
    outcome = compete("nelder-mead", task, 200, 7, task.evaluation_contexts())
    assert 150 < outcome.evaluated <= 200
    assert len(outcome.answers) == len(task.evaluation_contexts())
    assert all(each.shape[1] == task.parameter_size for each in outcome.answers)


def test_learners_are_held_to_the_budget():
    task = peers_task("throw", 7)
    outcome = compete("creps", task, 60, 7, task.evaluation_contexts())
    assert outcome.evaluated <= 60
    assert outcome.answers[0].shape == (1, 1)


class TestRows:
    jobs = chosen_jobs(
        ["cec-f2", "throw"], ["nelder-mead", "l-bfgs-b", "creps"], [3], {"points": (60,), "contexts": (60, 90)}
    )

    def test_baselines_have_no_part_without_contexts(self):
        assert len(self.jobs) == 2 + 6
        assert {job.cell for job in self.jobs if job.peer == "creps"} == {"throw"}
        assert len({job.key for job in self.jobs}) == len(self.jobs)

    def test_round_trip_and_report(self, tmp_path):
        jobs = [job for job in self.jobs if job.peer != "creps"]
        path = tmp_path / "rows.csv"
        done = list(run_jobs(jobs, 0, execute, lost))
        for each in done:
            append_row(path, each.row)
        rows = read_rows(path)
        assert [key(row) for row in rows] == [job.key for job in jobs]
        assert [evaluations(row) for row in rows] == [job.evaluations for job in jobs]
        assert [row["error"] for row in rows] == [""] * len(jobs)
        assert [value(row) for row in rows] == pytest.approx([each.row["coverage"] for each in done], rel=1e-4)
        assert all(row["rollouts"] <= evaluations(row) for row in rows)
        assert value(rows[0], 1e-1) >= value(rows[0], 1e-5) == value(rows[0])
        page = report.make_page(rows, "rows.csv", "peers.png")
        assert "## Without context" in page
        assert "## With contexts" in page
        assert "nelder-mead" in report.printed(rows)
        assert figures.draw(rows, tmp_path / "images" / "peers.png").stat().st_size > 10_000

    def test_an_error_is_a_row_that_found_nothing(self, tmp_path):
        row = execute(PeerJob("no-such-task", 3, "nelder-mead", 50)).row
        assert "no-such-task" in row["error"]
        append_row(tmp_path / "rows.csv", row)
        assert [value(each) for each in read_rows(tmp_path / "rows.csv")] == [0.0]
        assert "died" in lost(self.jobs[0]).row["error"]

    def test_common_rows_are_those_that_every_peer_has(self):
        def row(task, peer, number):
            return {"cell": task, "seed": 1, "method": peer, "family": "points", "settings": f'{{"rollouts":{number}}}'}

        whole = [row("cec-f1", peer, number) for peer in ("a", "b") for number in (500, 1000)]
        parted = [row("cec-f2", "a", 500), row("cec-f2", "a", 1000), row("cec-f2", "b", 500)]
        assert common_rows(whole + parted, "points") == whole
        assert common_rows(whole, "contexts") == []


def test_all_names_are_known():
    assert set(TASKS) == set(POINT_TASKS) | set(CONTEXT_TASKS)
    for name in CONTEXT_TASKS:
        task = peers_task(name, 1)
        assert task.context_size > 0
        assert task.contexts.bounds is not None
    for peer in PEERS.values():
        assert (peer.learner is None) != (peer.rival is None)
