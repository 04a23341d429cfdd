"""What would be published: one version everywhere, complete archives, a page for an index, types for users."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

import check_package
import hpsde
from hpsde.cli import main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive and the wheel."""
    return check_package.build(tmp_path_factory.mktemp("dist"))


def test_one_version_everywhere(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hpsde {hpsde.__version__}\n"
    assert version("hpsde") == hpsde.__version__
    assert f"\nversion: {hpsde.__version__}\n" in text("CITATION.cff")
    released = re.search(r"^## \[(\d[\d.]*)\] - ([\d-]+)$", text("CHANGELOG.md"), re.MULTILINE)
    assert released[1] == hpsde.__version__
    assert f"\ndate-released: {released[2]}\n" in text("CITATION.cff")


def test_archives_are_complete_and_pass_twine(built):
    source, wheel = built
    assert check_package.missing(check_package.source_names(source), check_package.SOURCE) == []
    assert check_package.missing(check_package.wheel_names(wheel), check_package.WHEEL) == []
    assert check_package.unwanted(check_package.source_names(source) + check_package.wheel_names(wheel)) == []
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_archive_has_every_test_page_and_example(built):
    tracked = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "docs", "examples", "benchmarks", "src")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "_build"} & set(path.parts) and ".egg-info" not in str(path)
    ]
    names = check_package.source_names(built[0])
    assert set(tracked) - set(names) == set()
    assert not [name for name in names if name.startswith("docs/_build")]  # `make docs` has built it


def test_something_missing_would_be_seen():
    assert check_package.missing(["a/b.py"], ("a/b.py", "a/c.py", "d/")) == ["a/c.py", "d/"]


def test_page_of_the_index_needs_nothing_beside_it():
    """An index shows it without the repository: no link, no picture. Its code is the one that is tested."""
    page = text(PROJECT["readme"])
    assert re.findall(r"\]\((?!https://)", page) == []
    assert text("examples/own_function.py") in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    named = set(re.findall(r"hpsde\[(\w+)\]", page))
    assert named == set(PROJECT["optional-dependencies"]) - {"dev", "peers", "docs"}


def test_classifiers_name_the_pythons_that_are_allowed():
    least = PROJECT["requires-python"].removeprefix(">=")
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert named[0] == least
    assert "Typing :: Typed" in metadata("hpsde").get_all("Classifier")


def test_a_strictly_typed_program_can_use_it(tmp_path):
    assert check_package.check_types(tmp_path, Path(sys.executable)) == ""


def test_types_are_really_seen(tmp_path, monkeypatch):
    """A wrong program is refused: hpsde's types are not `Any` to its users."""
    wrong = check_package.CONSUMER.replace("seed=seed", "seed='seven'").replace("option.number", "option.numbr")
    monkeypatch.setattr(check_package, "CONSUMER", wrong)
    said = check_package.check_types(tmp_path, Path(sys.executable))
    assert 'argument "seed"' in said.lower() or 'Argument "seed"' in said
    assert "numbr" in said
