"""What the site generates is all of what the package has; `make docs` builds it, and a warning is an error."""

import importlib.util
import re
from dataclasses import fields
from html.parser import HTMLParser
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from urllib.parse import unquote

import pytest

import hpsde
from hpsde import cli
from hpsde.base.groups import described
from hpsde.methods import DEFAULT_METHOD, METHODS, method_settings
from hpsde.policy.doubts import Signs, find_doubts

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference_of_the_site", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_command_has_all_its_arguments(reference, command):
    kind = import_module(f"hpsde.commands.{command}{'_' if iskeyword(command) else ''}").Command
    page = reference.command_page(command)
    assert len(re.findall(r"^\| `(?:--[a-z-]+|[A-Z]+)", page, re.MULTILINE)) == len(fields(kind))
    assert page.startswith(f"## hpsde {command}\n\n```text\nusage: hpsde {command} ")


def test_a_description_of_two_lines_is_whole(reference):
    assert "; without contexts a fiftieth. (default: the task's own) |" in reference.command_page("run")


@pytest.mark.parametrize("method", METHODS)
def test_settings_are_all_there_with_their_defaults(reference, method):
    settings = described(method_settings(method))
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]*)` \|", reference.settings_page(method), re.MULTILINE)
    assert dict(rows) == {each.name: str(each.value) for each in settings}


def test_every_default_has_its_reason():
    page = (DOCS / "settings.md").read_text(encoding="utf-8").split("## Why these defaults")[1]
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]*)` \| (\w.+) \|$", page, re.MULTILINE)
    known = {each.name: str(each.value) for each in described(method_settings(DEFAULT_METHOD))}
    assert {name: value for name, value, _ in rows} == known
    assert len({why for _, _, why in rows}) == len(rows)


class Links(HTMLParser):
    """What a built page links to, and what can be linked to in it."""

    def __init__(self):
        super().__init__()
        self.targets, self.names = [], set()

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.names |= {known["id"]} if known.get("id") else set()
        self.targets += [known[name] for name in ("href", "src") if known.get(name)]


@pytest.mark.skipif(not (DOCS / "_build/index.html").is_file(), reason="the site is not built: make docs")
def test_no_link_of_the_built_site_is_broken():
    pages = {}
    for path in (DOCS / "_build").rglob("*.html"):
        pages[path.resolve()] = Links()
        pages[path.resolve()].feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            place, _, name = target.partition("#")
            if re.match(r"[a-z]+:|//", target):
                continue
            file = (path.parent / unquote(place.partition("?")[0])).resolve() if place else path
            known = file.exists() and (not name or file not in pages or name in pages[file].names)
            broken += [] if known else [f"{path.name}: {target}"]
    assert len(pages) > 40
    assert not broken


def test_text_means_itself_in_markdown(reference):
    assert reference.escaped("a_b * [N] | c, but `d_e`") == r"a\_b \* \[N\] \| c, but `d_e`"


def test_docstrings_are_read_as_plain_text(reference):
    lines = ["What |phi| is.", "", "first, second: of", "    a thing.", "third: *.", "", "    code(1)"]
    reference.plain_docstring(None, "function", "hpsde.learn", None, None, lines)
    assert lines == [
        r"What \|phi\| is.", "", "* **first, second**: of a thing.", r"* **third**: \*.", "", "::", "", "    code(1)"
    ]  # fmt: skip


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r":: hpsde\.(\w+)$", page, re.MULTILINE))
    errors = {name for name in hpsde.__all__ if getattr(hpsde, name) is getattr(hpsde.errors, name, None)}
    assert set(hpsde.__all__) - errors - {"learning"} <= shown
    assert len(errors) > 5
    assert "errors" in shown


def test_every_doubt_is_explained():
    worst = Signs(
        explained=0.0, unexplored=1.0, expected=0.0, best_first=1.0, width=9.0, options=1, maxima=2, settled=0,
        outside=1.0, directions=30, first=10, climbing=2, beaten=0.5, scatter=0.0,
    )  # fmt: skip
    kinds = [doubt.kind for doubt in find_doubts(worst)]
    kinds.insert(1, find_doubts(worst._replace(explained=0.5))[0].kind)
    table = (DOCS / "is_my_result_right.md").read_text(encoding="utf-8").split("| kind |")[1].split("\n\n")[0]
    assert kinds == re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
