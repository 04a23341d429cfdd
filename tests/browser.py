"""A real browser for tests of pages: Debian's Chromium, without a window, driven by Playwright."""

import shutil
from contextlib import contextmanager

import pytest

from patience import LONG

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "there is no Chromium, so that pages are not tested: `make chromium` installs Debian's"


@contextmanager
def browser():
    """A browser; a test is skipped, and says why, where there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    api = pytest.importorskip("playwright.sync_api", reason="pages are not tested without Playwright")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield running
        finally:
            running.close()


class Tab:
    """A page of the browser, with what it has asked for and what went wrong in it."""

    def __init__(self, running, address, width=1280):
        self.page = running.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(1000.0 * LONG)
        self.asked, self.wrong = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-drawn]")

    def drawn(self):
        """How often the context was drawn."""
        return int(self.page.get_attribute("body", "data-drawn"))

    def after(self, action):
        """Do something, and wait until the context is drawn anew."""
        before = self.drawn()
        action()
        self.until(lambda: self.drawn() > before)

    def until(self, holds):
        for _ in range(int(20.0 * LONG)):
            if holds():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("what was waited for did not come")

    def settle(self):
        """Wait until no context is waited for or asked for: what is shown is the last one."""
        self.until(lambda: self.page.evaluate("!working && !waiting"))

    def drag(self, x, y, dx, dy, steps=5):
        """The pointer from one place to another."""
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + dx, y + dy, steps=steps)
        mouse.up()

    def there(self):
        """The context that is shown, the number of the chosen option, and of each option its numbers."""
        return self.page.evaluate(
            """() => ({context: Array.from(state.there.context), chosen: state.there.options[state.there.option].number,
            goal: state.there.goal && Array.from(state.there.goal), options: state.there.options.map((o) => ({
            number: o.number, parameters: Array.from(o.parameters), expected: o.expected_return,
            deviation: o.expected_deviation, line: o.line && o.line.map((p) => Array.from(p))}))})"""
        )
