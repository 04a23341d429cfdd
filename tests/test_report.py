"""`hpsde report`: a page in one file, opened from disk by a real browser."""

import base64

import numpy as np
import pytest

import hpsde
from hpsde.cli import main
from hpsde.policy.file import policy_of_bytes
from hpsde.runs.past import PastPolicies
from hpsde.serve.report import page


def throw(contexts, parameters):
    return -np.abs(10.0**2 / 9.81 * np.sin(2.0 * np.radians(parameters[:, 0])) - contexts[:, 0])


def learned_run(folder):
    """A run of one context number that has learned twice, with two failures."""
    sizes = {"context_size": 1, "initial_rollouts": 40, "rollouts": 80, "batch": 20, "max_options": 3}
    with hpsde.Run.create(folder, initial=hpsde.Uniform(0.0, 90.0), seed=1, **sizes) as run:
        generator = np.random.default_rng(0)
        for count in (42, 22):
            asked = run.ask(generator.uniform(3.0, 8.0, (count, 1)))
            failed = asked.pop()
            values = throw(np.array([each.context for each in asked]), np.array([each.parameters for each in asked]))
            run.tell([each.id for each in asked], values)
            run.tell(failed.id, failed="motor fault <b>")
        run.ask([[5.0]])
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run and the page of it."""
    folder = learned_run(tmp_path_factory.mktemp("report") / "run")
    file = folder.parent / "report.html"
    assert main(["report", str(folder), "--out", str(file)]) == 0
    return folder, file


def test_the_file_is_small_and_names_no_address(written):
    text = written[1].read_text(encoding="utf-8")
    assert len(text.encode()) <= 5_000_000
    assert "://" not in text
    assert "src=" not in text
    assert "@import" not in text


def test_numbers_in_the_page_are_those_of_python(written, open_tab):
    folder, file = written
    policy = hpsde.load_policy(folder / "policy.npz")
    tab = open_tab(file.as_uri())
    seen = []
    for value in (3.3, 4.71, 5.5, 7.9):
        tab.after(lambda value=value: (tab.page.fill("#number-0", str(value)), tab.page.press("#number-0", "Enter")))
        seen.append(tab.there())
    assert tab.asked == [file.as_uri(), *(each for each in tab.asked if each.startswith("data:"))]
    assert tab.wrong == []
    for value, there in zip((3.3, 4.71, 5.5, 7.9), seen, strict=True):
        context = np.array([there["context"]])
        assert context[0, 0] == value  # any context, not the nearest of some
        options = there["options"]
        assert [option["number"] for option in options] == policy.option_numbers.tolist()
        np.testing.assert_allclose([o["parameters"] for o in options], policy.option_means(context)[:, 0], rtol=1e-6)
        np.testing.assert_allclose([o["expected"] for o in options], policy.expected_returns(context)[:, 0], atol=1e-6)
        np.testing.assert_allclose(
            [o["deviation"] for o in options], policy.expected_deviations(context)[:, 0], atol=1e-6
        )
        assert there["chosen"] == policy.options[policy.choose(context)[0]].number


def replay_one(tab, page, folder):
    """The first learning step: its rollouts, and its options as they were."""
    newest = tab.there()
    tab.after(lambda: page.locator("#replay").fill("1"))
    past = policy_of_bytes(PastPolicies(folder / "past.policies").read(1), "it")
    there = tab.there()
    context = np.array([there["context"]])
    options = there["options"]
    np.testing.assert_allclose([o["parameters"] for o in options], past.option_means(context)[:, 0], rtol=1e-6)
    np.testing.assert_allclose([o["expected"] for o in options], past.expected_returns(context)[:, 0], atol=1e-6)
    assert [o["parameters"] for o in options] != [o["parameters"] for o in newest["options"]]
    assert page.evaluate("state.line.means.length") == page.evaluate("LINE_POINTS")


def test_sliders_filters_replay_and_pins_answer(written, open_tab):
    folder, file = written
    tab = open_tab(file.as_uri())
    page = tab.page
    before = tab.there()
    tab.after(lambda: page.locator("#slider-0").press("ArrowRight"))
    assert tab.there()["context"][0] > before["context"][0]
    box = page.locator("#map").bounding_box()
    tab.after(lambda: tab.drag(box["x"] + 200, box["y"] + 60, 300, 0))
    assert tab.there()["context"] != before["context"]

    assert page.inner_text("#map-hint").startswith("65 rollouts are shown")
    page.fill("#least", "-2")
    fewer = int(page.inner_text("#map-hint").split()[0])
    assert 0 < fewer < 65
    page.uncheck("#failed")
    assert int(page.inner_text("#map-hint").split()[0]) == fewer - 2
    page.locator("#legend input").first.uncheck()
    assert int(page.inner_text("#map-hint").split()[0]) < fewer - 2
    page.click("#clear")
    assert page.inner_text("#map-hint").startswith("65 rollouts")

    replay_one(tab, page, folder)
    assert page.inner_text("#map-hint").startswith("42 rollouts")  # what the first learning step saw
    assert page.inner_text("#replay-text").startswith("as learning step 1 of 2 saw it")
    tab.after(lambda: page.locator("#replay").fill("2"))

    other = next(o["number"] for o in tab.there()["options"] if o["number"] != tab.there()["chosen"])
    page.click(f".card[data-number='{other}'] button")
    assert page.get_attribute(f".card[data-number='{other}'] button", "aria-pressed") == "true"
    assert page.inner_text("#comparison").startswith(f"Pinned option {other} against option")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    failed = page.evaluate("run().rollouts.state.indexOf(2)")
    point = page.evaluate(
        f"(() => {{ const k = mapped.places.indexOf({failed}); return [mapped.px[k], mapped.py[k]]; }})()"
    )
    page.locator("#map").hover(position={"x": point[0], "y": point[1]})
    assert "failed: motor fault <b>" in page.inner_text("#tip")
    page.locator("#best-table tr").nth(1).click()
    assert "return" in page.inner_text("#selected")
    assert page.locator("#selected button").count() == 0  # a file corrects nothing
    assert tab.wrong == []


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_page(written, open_tab, width):
    tab = open_tab(written[1].as_uri(), width)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_words_of_a_run_cannot_become_a_script():
    text = page({"name": "</script><script>alert(1)</script>"}, "<img onerror=x>")
    assert "<script>alert" not in text
    assert "<img" not in text


def test_a_run_that_has_learned_nothing_and_a_wrong_name_are_refused(tmp_path, capsys):
    hpsde.Run.create(tmp_path / "run", initial=hpsde.Uniform(0.0, 1.0), context_size=1).close()
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "x.html")]) == 2
    assert "learned nothing" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "x.pdf")]) == 2


def test_of_many_rollouts_some_are_left_out_and_the_best_is_kept(written):
    from hpsde.runs.ledger import Ledger
    from hpsde.serve.newest import NewestPolicy
    from hpsde.serve.run_data import run_data

    with Ledger.open(written[0]) as run:
        data = run_data(run, NewestPolicy(written[0]).read(), most=20)
        returns = run.rollouts().returns
    assert (data["shown"] <= 21, data["all"]) == (True, 65)
    kept = np.frombuffer(base64.b64decode(data["rollouts"]["returns"]["base64"]))
    assert np.nanmax(kept) == np.nanmax(returns)
