"""`hpsde reproduce image`: what it compares, and a rehearsal."""

import numpy as np
import pytest

from hpsde.base.draws import make_key
from hpsde.cli import main
from hpsde.experiments import claims, encoders, plan, rows
from hpsde.experiments.plan import IMAGE
from hpsde.tasks import make_task


def test_it_is_found_beside_those_of_the_paper(capsys):
    assert plan.find_experiment("image") is IMAGE
    assert "image" not in plan.EXPERIMENTS
    assert main(["reproduce", "image", "--list"]) == 0
    assert "the puddle world seen in pictures; not in the paper" in capsys.readouterr().out
    names = {each.name for each in IMAGE.variants}
    assert {name for claim in IMAGE.claims for pair in claim.pairs for name in pair if isinstance(name, str)} <= names


def test_components_are_those_of_the_covariance_and_the_true_context_is_true():
    task = make_task("puddle-image-32")
    pictures = task.sample_contexts(make_key(1), 300)
    z = encoders.principal_components(pictures, 5)(pictures.reshape(-1, 32, 32))
    values = np.linalg.eigvalsh(np.cov(pictures.T, bias=True))[::-1]
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.diag(values[:5]), atol=1e-9)
    changes = {name: encoders.resolved({"encoder": name}, task, 3)["encoder"] for name in ("true-context", "pictures")}
    assert changes["pictures"] == "pictures"
    shaped = pictures.reshape(-1, 32, 32)
    np.testing.assert_array_equal(changes["true-context"](shaped), task.true_contexts(pictures))
    some = encoders.resolved({"encoder": "pixels-8"}, task, 3)["encoder"](shaped)
    np.testing.assert_allclose(some[:, 9], pictures.reshape(-1, 32, 32)[:, 4:8, 4:8].mean(axis=(1, 2)))
    some = encoders.resolved({"encoder": "components-3", "kappa": 2.0}, task, 3)
    assert some["encoder"](shaped).shape == (300, 3)
    assert some["kappa"] == 2.0


def test_equal_is_within_the_experiments_own_margin():
    assert claims.margin_of({}, IMAGE, IMAGE.tasks[0]) == pytest.approx(0.37)


def test_a_rehearsal_writes_rows_and_a_page(tmp_path):
    arguments = ["--seeds", "1", "--rollouts", "60", "--variants", "encoder", "true-context", "--workers", "1"]
    assert main(["reproduce", "image", *arguments, "--out", str(tmp_path), "--quiet"]) == 0
    found = rows.runs_of(rows.read_rows(tmp_path / "image.csv"))
    assert {variant for _, variant, _ in found} == {"encoder", "true-context"}
    assert not any(map(rows.failed, found.values()))
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| `encoder` |" in page
    assert "as good as the true context: undecided" in page
    assert (tmp_path / "figures" / "puddle-image-32-curves.png").stat().st_size > 1000
