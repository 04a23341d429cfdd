"""A run as one page in one file, which opens from disk without a server or a network."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from hpsde.errors import InputError
from hpsde.runs.ledger import Ledger
from hpsde.serve.newest import NewestPolicy
from hpsde.serve.run_data import drawn_task, grid_data, run_data

LARGEST_BYTES = 5_000_000
ROLLOUT_BYTES = 2_000_000
"""What rollouts may take; of more some are left out, and the page says so."""


def report_page(folder: Path, trust: bool = False) -> str:
    """The page. What is not in it is not loaded: it has no address in it."""
    with Ledger.open(folder) as run:
        policy = NewestPolicy(folder).read()
        if policy is None:
            raise InputError(f"{folder} has learned nothing yet: there is nothing to report")
        numbers = run.config.context_size + run.config.parameter_size
        most = max(ROLLOUT_BYTES // (6 * (numbers + 8)), 100)
        data = run_data(run, policy, most)
        data["grid"] = grid_data(policy, data, drawn_task(run.config, trust))
    return page({"mode": "report", "runs": [data]}, f"{data['name']}: what was learned")


def page(data: dict[str, Any], title: str) -> str:
    """The page with its script, its style and its data in it."""
    parts = files("hpsde.serve") / "page"
    text = {name: (parts / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
    # No text of a run may end the script that it stands in.
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
    title = "".join(f"&#{ord(letter)};" if letter in "<>&\"'" else letter for letter in title)
    filled = text["page.html"].replace("/* style */", text["page.css"]).replace("/* title */", title)
    before, _, after = filled.partition("/* script */")
    script = text["page.js"].replace("/* data */ null", content)
    return before + script + after
