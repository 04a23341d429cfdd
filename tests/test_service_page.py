"""The walk of docs/service.md: its commands, run by a shell as they stand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hpsde
from patience import LONG

PAGE = Path(__file__).parent.parent / "docs/service.md"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_commands_with_curl_run(tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    code = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + "\n".join(SHELL.findall(PAGE.read_text("utf-8")))
    done = subprocess.run(
        ["bash", "-e", "-u", "-m", "-o", "pipefail", "-c", code],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"told":[1],"again":[],"warnings":[]}{"told":[],"again":[1],"warnings":[]}' in done.stdout
    with hpsde.Run.open(tmp_path / "runs/served") as run:
        rows = run.rollouts()
    assert rows.status.tolist() == ["done", "failed"]
    assert rows.returns[0] == -0.25
