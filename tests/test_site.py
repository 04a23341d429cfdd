"""What the site generates is all of what the package has; `make docs` builds it, and a warning is an error."""

import importlib.util
import re
from dataclasses import fields
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import pytest

import hpsde
from hpsde import cli
from hpsde.base.groups import described
from hpsde.methods import METHODS, method_settings
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
        outside=1.0, directions=30, first=10,
    )  # fmt: skip
    kinds = [doubt.kind for doubt in find_doubts(worst)]
    table = (DOCS / "is_my_result_right.md").read_text(encoding="utf-8").split("| kind |")[1].split("\n\n")[0]
    assert kinds == re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
