"""A run as one page in one file, which opens from disk without a server or a network."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.errors import HpsdeError, InputError
from hpsde.policy.answers import option_entries
from hpsde.policy.file import policy_of_bytes
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.files import json_ready
from hpsde.runs.folder import PAST
from hpsde.runs.ledger import Ledger
from hpsde.runs.past import PastPolicies
from hpsde.serve.model_data import model_data
from hpsde.serve.newest import NewestPolicy
from hpsde.serve.run_data import drawn_task, grid_data, run_data

ROLLOUT_BYTES, MODEL_BYTES, PAST_BYTES = 1_500_000, 1_000_000, 500_000
"""What rollouts, the policy and past policies may take. Of more rollouts some are left out, and the page says so; a
larger policy is carried in a grid of contexts; of past policies there are fewer."""
MOST_PAST = 20
SCRIPTS = ("state", "model", "sources", "drawing", "map", "scene", "context", "cards", "learning", "rollout", "page")
"""Parts of the page's script, in their order."""


def report_page(folder: Path, trust: bool = False) -> str:
    """The page. What is not in it is not loaded: it has no address in it."""
    with Ledger.open(folder) as run:
        policy = NewestPolicy(folder).read()
        if policy is None:
            raise InputError(f"{folder} has learned nothing yet: there is nothing to report")
        numbers = run.config.context_size + run.config.parameter_size
        most = max(ROLLOUT_BYTES // (6 * (numbers + 8)), 100)
        data = run_data(run, policy, most)
        model = model_data(policy)
        data["model"] = model if _bytes(model) <= MODEL_BYTES else None
        data["grid"] = grid_data(policy, data, drawn_task(run.config, trust), data["model"] is None)
        data["models"] = past_models(PastPolicies(folder / PAST), data["status"]["steps"])
        data["past"] = [each["step"] for each in data["models"]]
    return page({"mode": "report", "runs": [data]}, f"{data['name']}: what was learned")


def past_models(past: PastPolicies, newest: int) -> list[dict[str, Any]]:
    """Policies of some of the past learning steps, spread evenly, as many as there is room for."""
    steps, room = [step for step in past.steps() if step < newest], PAST_BYTES
    found = []
    count = min(len(steps), MOST_PAST)
    while count:
        places = np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))
        found = [each for i in places if (each := _past_model(past, steps[i])) is not None]
        if _bytes(found) <= room:
            return found
        count = min(count - 1, int(count * room / _bytes(found)))
    return []


def _past_model(past: PastPolicies, step: int) -> dict[str, Any] | None:
    try:
        policy: HierarchicalPolicy = policy_of_bytes(past.read(step) or b"", f"{past.path}, learning step {step}")
    except HpsdeError:  # a report does without what cannot be replayed
        return None
    model = model_data(policy)
    entries = json_ready(option_entries(policy))
    return None if model is None else {"step": step, "model": model, "entries": entries}


def _bytes(data: Any) -> int:
    return len(json.dumps(data))


def page(data: dict[str, Any], title: str) -> str:
    """The page with its script, its style and its data in it."""
    parts = files("hpsde.serve") / "page"
    text = {name: (parts / name).read_text(encoding="utf-8") for name in ("page.html", "page.css")}
    script = "\n".join((parts / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    # No text of a run may end the script that it stands in.
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
    title = "".join(f"&#{ord(letter)};" if letter in "<>&\"'" else letter for letter in title)
    filled = text["page.html"].replace("/* style */", text["page.css"]).replace("/* title */", title)
    before, _, after = filled.partition("/* script */")
    return before + script.replace("/* data */ null", content) + after
