"""A few inputs of `benchmarks/fuzz.py`: each is answered or refused with a message, and nothing else happens."""

import json
import subprocess
import sys
from pathlib import Path

from patience import LONG

FUZZ = Path(__file__).parent.parent / "benchmarks/fuzz.py"


def test_generated_inputs_are_answered_or_refused():
    """Two for each way in."""
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--inputs", "28"], capture_output=True, text=True, timeout=LONG, check=False
    )
    counts = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    assert done.returncode == 0, done.stdout + done.stderr
    assert (counts.pop("inputs"), counts.pop("first_seed")) == (28, 0)
    assert 0 < counts.pop("largest_memory_mib") < 1024
    assert set(counts) <= {"answer", "message"}
    assert counts["message"] > 0
