"""The picture of `hpsde view` in the documentation: the page of a run, in Chromium without a window.

    python examples/view_picture.py runs/figures/puddle docs/images/view.png

Needs the extra serve, Playwright, and Chromium (`make chromium`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 1075


def main(folder: str, file: str) -> None:
    """Start the view, open it, take the upper part of the page."""
    words = [sys.executable, "-m", "hpsde", "view", folder, "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            found = re.search(r"http://\S+", server.stdout.readline() if server.stdout else "")
            if found is None:
                raise SystemExit("the view did not start")
            take(found.group(), file)
        finally:
            server.terminate()
    print(file)


def take(address: str, file: str) -> None:
    """The picture of a page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(address)
        page.wait_for_selector("body[data-drawn]", timeout=120_000)
        page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
