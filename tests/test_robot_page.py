"""The walk of docs/robot.md: its commands, run by a shell as they stand."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import hpsde
from patience import LONG

PAGE = Path(__file__).parent.parent / "docs/robot.md"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def test_the_commands_of_the_walk_run(tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", "\n".join(SHELL.findall(PAGE.read_text(encoding="utf-8")))],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with hpsde.Run.open(tmp_path / "runs/arm") as run:
        told, status = run.rollouts(), run.status()
    assert (status.done, status.failed, status.added, status.open, status.rollouts) == (26, 2, 3, (), 40)
    assert status.steps >= 3
    assert np.all((told.parameters >= 5.0) & (told.parameters <= 85.0))
    landing = 10.194 * np.sin(2.0 * np.radians(told.parameters[:, 0]))
    known = np.isfinite(told.returns)
    np.testing.assert_allclose(told.returns[known], -np.abs(landing - told.contexts[:, 0])[known], atol=1e-3)
    act = json.loads((tmp_path / "act.json").read_text())
    assert 5.0 <= act["parameters"][0] <= 85.0
    assert {"expected_return", "expected_deviation", "measured_return", "measured_rollouts"} < set(act["options"][0])
    assert (tmp_path / "arm.png").stat().st_size > 10_000
    assert len((tmp_path / "arm.csv").read_text().splitlines()) == 29
