"""`hpsde view`: the page of a real server, in a real browser."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest

import hpsde
import served
from arm_policies import four_postures
from hpsde.cli import main
from hpsde.policy.file import policy_of_bytes
from hpsde.runs.past import PastPolicies
from patience import LONG
from test_report import learned_run, throw


@pytest.fixture(scope="module")
def puddle(tmp_path_factory):
    """A short run of routes, which can be drawn."""
    folder = tmp_path_factory.mktemp("view") / "puddle"
    with hpsde.Run.create(
        folder, "puddle", rollouts=90, initial_rollouts=80, batch=10, max_options=3, measure=False
    ) as run:
        run.learn(progress=False)
    return folder


@pytest.fixture(scope="module")
def thrown(tmp_path_factory):
    """A run that is asked and told."""
    return learned_run(tmp_path_factory.mktemp("view") / "thrown")


@pytest.fixture(scope="module")
def routes(puddle):
    """A server of the run of routes, for tests that change nothing."""
    with served.started(puddle, "--no-browser", command="view") as server:
        yield server


@pytest.fixture(scope="module")
def looked_at(thrown):
    """A server of the other run, for tests that change nothing."""
    with served.started(thrown, "--no-browser", command="view") as server:
        yield server


def test_a_goal_is_dragged_and_every_option_follows(puddle, routes, open_tab):
    policy = hpsde.load_policy(puddle / "policy.npz")
    tab = open_tab(routes.address)
    before, box = tab.there(), tab.page.locator("#picture").bounding_box()
    x, y = tab.page.evaluate("seen.to(state.there.goal)")
    tab.page.locator("#picture").scroll_into_view_if_needed()
    box = tab.page.locator("#picture").bounding_box()
    tab.after(lambda: tab.drag(box["x"] + x, box["y"] + y, 0, -40))
    tab.until(lambda: tab.there()["goal"][1] > before["goal"][1] + 0.3)
    tab.settle()
    after = tab.there()
    assert after["goal"][1] == pytest.approx(after["context"][0])
    assert len(after["options"]) == len(policy.options)
    for old, new in zip(before["options"], after["options"], strict=True):
        assert np.abs(np.array(old["line"]) - np.array(new["line"])).max() > 0.05
    context = np.array([after["context"]])
    assert [o["parameters"] for o in after["options"]] == policy.option_means(context)[:, 0].tolist()
    assert after["chosen"] == policy.options[policy.choose(context)[0]].number
    host = routes.address.partition("/?")[0]
    assert all(each.startswith((host, "data:")) for each in tab.asked)
    assert tab.wrong == []


def test_numbers_agree_with_the_command_and_the_context_can_be_dragged_on_the_map(thrown, looked_at, open_tab, capsys):
    tab = open_tab(looked_at.address)
    tab.after(lambda: (tab.page.fill("#number-0", "5.25"), tab.page.press("#number-0", "Enter")))
    assert main(["act", str(thrown), "--context", "5.25"]) == 0
    said = json.loads(capsys.readouterr().out)
    there = tab.there()
    assert there["context"] == [5.25]
    assert there["chosen"] == said["number"]
    for shown, known in zip(there["options"], said["options"], strict=True):
        assert shown["parameters"] == known["parameters"]
        assert (shown["expected"], shown["deviation"]) == (known["expected_return"], known["expected_deviation"])
    box = tab.page.locator("#map").bounding_box()
    tab.page.locator("#map").scroll_into_view_if_needed()
    box = tab.page.locator("#map").bounding_box()
    tab.after(lambda: tab.drag(box["x"] + 300, box["y"] + 30, 250, 0))
    assert tab.there()["context"] != [5.25]
    tab.after(lambda: tab.page.locator("#map").press("ArrowLeft"))
    assert tab.wrong == []


def test_a_return_is_corrected_after_it_was_asked_again_and_the_page_follows(tmp_path, open_tab):
    folder = learned_run(tmp_path / "run")
    with served.started(folder, "--no-browser", command="view") as server:
        tab = open_tab(server.address)
        page = tab.page
        page.evaluate("select(7)")
        assert page.inner_text("#selected").startswith("Rollout 7")
        page.fill("#right", "-0.5")
        page.fill("#why", "a slip of the pen")
        page.click("#correct")
        assert "Correct the return of rollout 7 to -0.5?" in page.inner_text("#ask-text")
        page.click("#ask button[value=no]")
        with hpsde.Run.open(folder) as run:
            assert run.rollouts().returns[6] != -0.5
        page.click("#correct")
        page.click("#ask-yes")
        tab.until(lambda: page.inner_text("#message") == "Rollout 7 was corrected.")
        page.evaluate("select(8)")
        page.click("#drop")
        assert page.inner_text("#ask-text").startswith("Drop rollout 8?")
        page.click("#ask-yes")
        tab.until(lambda: page.inner_text("#message") == "Rollout 8 was corrected.")
        with hpsde.Run.open(folder) as run:
            rows, events = run.rollouts(), run.store.events()
            assert rows.returns[6] == -0.5
            assert rows.status[7] == "failed"
            assert [event.content["reason"] for event in events if event.kind == "corrected"] == [
                "a slip of the pen",
                None,
            ]
            number = run.status().open[0]
            told = rows.contexts[number - 1 : number], rows.parameters[number - 1 : number]
            run.tell(number, throw(*told)[0])  # another process tells, and the page follows
        tab.until(lambda: ", 0 under way" in page.inner_text("#facts"))
        assert tab.wrong == []


def test_runs_stand_side_by_side(puddle, thrown, open_tab):
    with served.started(puddle, str(thrown), "--no-browser", command="view") as server:
        tab = open_tab(server.address)
        rows = tab.page.locator("#compare-table tr")
        assert rows.count() == 3
        assert str(thrown) in rows.nth(2).inner_text()
        assert "max_options" not in tab.page.inner_text("#settings-table")  # the same in both
        assert "batch" in tab.page.inner_text("#settings-table")
        tab.page.select_option("#run", "1")
        tab.until(lambda: tab.page.inner_text("#name").startswith("thrown"))
        assert tab.wrong == []


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """A run of the arm with a few rollouts, and a policy of four postures that was made by hand."""
    folder = tmp_path_factory.mktemp("view") / "arm"
    with hpsde.Run.create(folder, "reach", seed=1) as run:
        asked = run.ask(run.task.evaluation_contexts()[:30])
        rows = [np.array([getattr(each, name) for each in asked]) for name in ("context", "parameters")]
        run.tell([each.id for each in asked], run.task.evaluate(*rows))
    four_postures().save(folder / "policy.npz")
    return folder


def test_the_goal_of_an_arm_is_dragged_in_space_and_every_posture_follows(arm, open_tab):
    with served.started(arm, "--no-browser", command="view") as server:
        tab = open_tab(server.address)
        picture = tab.page.locator("#picture")
        picture.scroll_into_view_if_needed()
        middle = "setContext(run().low.map((v, i) => (v + run().high[i]) / 2))"
        tab.after(lambda: tab.page.evaluate(middle))  # the goal does not leave the contexts that were seen
        for yaw in (-2.2, 0.0):  # seen from two sides, so that all three numbers are dragged
            tab.page.evaluate(f"state.yaw = {yaw}; showPicture()")
            before, box = tab.there(), picture.bounding_box()
            x, y = tab.page.evaluate("seen.to(state.there.goal)")
            tab.after(lambda box=box, x=x, y=y: tab.drag(box["x"] + x, box["y"] + y, 12, -12))
            tab.settle()
            after = tab.there()
            assert np.all(np.abs(np.array(after["goal"]) - after["context"]) < 1e-12)
            assert np.sum(np.abs(np.array(after["goal"]) - before["goal"]) > 1e-3) >= 2
            for old, new in zip(before["options"], after["options"], strict=True):
                assert np.abs(np.array(old["line"]) - np.array(new["line"])).max() > 1e-3
        assert len(after["options"]) == 4
        turned = tab.page.evaluate("state.yaw")
        tab.drag(box["x"] + 20, box["y"] + 20, 60, 0)
        assert tab.page.evaluate("state.yaw") != turned
        assert tab.there()["goal"] == after["goal"]  # the picture was turned, the goal stayed
        assert tab.wrong == []


def test_the_learning_is_replayed_with_the_options_as_they_were(puddle, routes, open_tab):
    kept = PastPolicies(puddle / "past.policies")
    assert len(kept.steps()) >= 2
    tab = open_tab(routes.address)
    page, newest = tab.page, tab.there()
    tab.after(lambda: page.locator("#replay").fill("1"))
    past, there = policy_of_bytes(kept.read(1), "it"), tab.there()
    context = np.array([there["context"]])
    assert [o["number"] for o in there["options"]] == past.option_numbers.tolist()
    assert [o["parameters"] for o in there["options"]] == past.option_means(context)[:, 0].tolist()
    assert [o["line"] for o in there["options"]] != [o["line"] for o in newest["options"]]
    assert page.locator("#options-table tr").count() == 1 + len(past.options)
    assert page.inner_text("#replay-text").startswith("as learning step 1 of 2 saw it: 80 rollouts")
    other = next((o["number"] for o in there["options"] if o["number"] != there["chosen"]), there["chosen"])
    page.click(f".card[data-number='{other}'] button")
    assert f"ption {other}" in page.inner_text("#comparison")
    tab.after(lambda: page.locator("#replay").fill("2"))
    assert tab.there() == newest
    assert tab.wrong == []


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_page(routes, open_tab, width):
    tab = open_tab(routes.address, width)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def status_of(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=LONG) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_only_who_knows_the_token_sees_the_page(looked_at):
    host, _, token = looked_at.address.partition("/?token=")
    assert status_of(looked_at.address) == 200
    assert status_of(host + "/") == 401
    assert status_of(host + "/?token=wrong") == 401
    assert status_of(host + "/data?run=0") == 401
    known = {"Authorization": f"Bearer {token}"}
    assert status_of(host + "/data?run=0", **known) == 200
    assert status_of(host + "/data?run=7", **known) == 422
    assert status_of(host + "/rollout?run=0&id=999999", **known) == 404
    assert status_of(host + "/data?run=0", Host="evil.example", **known) == 421


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/evaluate", b'{"run": 0, "context": [5.0]', 400),
        ("/evaluate", b'{"run": 0, "context": [5.0, 6.0]}', 422),
        ("/evaluate", b'{"run": 0, "context": ["5"]}', 422),
        ("/evaluate", b'{"run": 0, "context": [5.0], "axis": 1}', 422),
        ("/evaluate", b'{"run": 0, "context": [5.0], "step": 0}', 422),
        ("/evaluate", b'{"run": -1, "context": [5.0]}', 422),
        ("/evaluate", b"[" * 100_000, 400),
        ("/evaluate", b" " * (2**20 + 1), 413),
        ("/correct", b'{"run": 0, "id": 999999, "drop": true}', 404),
        ("/correct", b'{"run": 0, "id": 1, "return": 1, "drop": true}', 422),
        ("/nothing", b"{}", 404),
    ],
)
def test_wrong_requests_are_refused_with_a_reason(looked_at, path, body, status):
    host, _, token = looked_at.address.partition("/?token=")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(host + path, body, headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=LONG)
    assert refused.value.code == status
    assert json.loads(refused.value.read())["error"]
