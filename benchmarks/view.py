"""How long the page of `hpsde view` takes to open, and to follow the context, in Chromium without a window.

    python benchmarks/view.py                            # a run of 100,000 rollouts, and one of the arm
    python benchmarks/view.py --rollouts 10000 --arm 0 --results FILE

The large run is made up: rollouts of one context number and two parameters, of which the first 200 were learned from.
That of the arm (reach) has learned once, from as many rollouts as --arm says. Opening is from the navigation to the
first drawing of all parts, and what the command takes before it prints its address is counted apart; a move of the
context is from the change of its numbers to the redraw of all options, their pictures and the map, the server's answer
included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from playwright.sync_api import sync_playwright

import hpsde

RESULTS = Path(__file__).parent / "results" / "view.json"
MOVES = 60
MOVE = """async (count) => { const took = []; for (let i = 0; i < count; i++) {
  const next = run().low.map((v, k) => v + (run().high[k] - v) * ((i * (k + 1)) % count) / count);
  const from = performance.now(); await setContext(next); took.push(performance.now() - from); } return took; }"""
DRAW = "() => { const from = performance.now(); drawMap(); return performance.now() - from; }"


def make_run(folder: Path, rollouts: int) -> None:
    """A run of so many rollouts; it has learned from the first 200 alone, which is enough for a page."""
    generator = np.random.default_rng(0)
    bounds = hpsde.Uniform([-1.0, -1.0], [1.0, 1.0])
    sizes = {"context_size": 1, "initial_rollouts": 200, "rollouts": 300, "batch": 100, "max_options": 4}
    with hpsde.Run.create(folder, initial=bounds, **sizes) as run:
        asked = run.ask(generator.uniform(0.0, 2.0, (200, 1)))
        run.tell([each.id for each in asked], [float(returns_of(each.context, each.parameters)) for each in asked])
        run.ask([[1.0]])
        s, xi = generator.uniform(0.0, 2.0, (rollouts - 201, 1)), generator.uniform(-1.0, 1.0, (rollouts - 201, 2))
        run.add(s, xi, returns_of(s.T, xi.T))


def make_arm(folder: Path, rollouts: int) -> None:
    """A run of the arm that has learned once."""
    sizes = {"initial_rollouts": rollouts, "rollouts": rollouts + 50, "batch": rollouts}
    with hpsde.Run.create(folder, "reach", measure=False, **sizes) as run:
        goals = run.task.contexts.sample(jax.random.key(0), rollouts + 1)
        asked = run.ask(goals[:-1])
        done = (np.array([getattr(each, name) for each in asked]) for name in ("context", "parameters"))
        run.tell([each.id for each in asked], run.task.evaluate(*done))
        run.ask(goals[-1:])


def returns_of(context: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Two ridges."""
    return np.exp(-4.0 * np.abs(np.abs(parameters[0] - 0.1 * context[0]) - 0.6) - parameters[1] ** 2)


def measure(folder: Path) -> dict[str, Any]:
    """Milliseconds of opening, drawing and moving."""
    words = [sys.executable, "-m", "hpsde", "view", str(folder), "--no-browser"]
    begun = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            found = re.search(r"http://\S+", server.stdout.readline() if server.stdout else "")
            if found is None:
                raise SystemExit("the view did not start")
            address = 1e3 * (time.perf_counter() - begun)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            opened = []
            for _ in range(3):
                started = time.perf_counter()
                page.goto(found.group())
                page.wait_for_selector("body[data-drawn]", timeout=120_000)
                opened.append(1e3 * (time.perf_counter() - started))
            drawn = [page.evaluate(DRAW) for _ in range(10)]
            moved = page.evaluate(MOVE, MOVES)
            options = page.evaluate("run().policy_options.length")
            browser.close()
        finally:
            server.terminate()
    middle, slow = np.percentile(moved, [50, 95])
    return {
        "options": options,
        "command_to_address_ms": round(address),
        "open_first_ms": round(opened[0]),
        "open_again_ms": round(min(opened[1:])),
        "draw_map_ms": round(float(np.median(drawn)), 1),
        "move_context_ms": {"p50": round(middle, 1), "p95": round(slow, 1), "moves": MOVES},
    }


def main() -> None:
    """Make a run, look at it, write what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--arm", type=int, default=600, help="rollouts of the run of the arm; 0: none")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if shutil.which("chromium") is None:
        print("there is no Chromium, so that nothing was measured: make chromium installs Debian's")
        return
    with tempfile.TemporaryDirectory() as place:
        make_run(Path(place) / "run", given.rollouts)
        result = {"rollouts": given.rollouts, **measure(Path(place) / "run")}
        if given.arm:
            make_arm(Path(place) / "arm", given.arm)
            result["reach"] = {"rollouts": given.arm, **measure(Path(place) / "arm")}
    result["load_average"] = round(os.getloadavg()[0], 1)
    given.results.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
