"""What the README and the docs say exists, exists; the code they show runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import handmade
import hpsde
from patience import LONG

ROOT = Path(__file__).parent.parent
SITE = sorted(ROOT.glob("docs/*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *SITE])
LINK = re.compile(r"\]\(([^)\s]+)\)")
# `src/hpsde/steps/weights.py`, `tests/`: a name in backticks that begins with a folder of the repository.
NAMED = re.compile(r"`((?:src|tests|docs|examples|benchmarks|\.ci)/[\w./-]*)`")
TARGET = re.compile(r"`make ([a-z]+)`")
INCLUDED = re.compile(r"```\{include\} (\S+)")
SHELF = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
IMAGES = {"images/options-found.png"}
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)
QUIET = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in LINK.findall(text) if "://" not in link and not link.startswith(("#", "mailto:"))]
    missing = [link for link in links if not (page.parent / link.split("#")[0]).exists()]
    missing += [name for name in NAMED.findall(text) if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_headings_meet_a_heading(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link or not anchor:
            continue
        target = (page.parent / path) if path else page
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(page.read_text(encoding="utf-8"))) <= targets


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    # A page of the site that is a file elsewhere is linked as that file, which also those who read the source can open.
    files = {page: INCLUDED.match(page.read_text(encoding="utf-8")) for page in SITE if page.name != "index.md"}
    assert {file[1] if file else page.name for page, file in files.items()} == set(LINK.findall(index)) - IMAGES


def test_shelves_list_the_pages_in_the_order_of_their_tables():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    shelved = [name for shelf in SHELF.findall(index) for name in re.findall(r"<(\w+)>", shelf)]
    pages = {page.stem: INCLUDED.match(page.read_text(encoding="utf-8")) for page in SITE}
    rows = re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \|", index, re.MULTILINE)
    assert [pages[name][1] if pages[name] else f"{name}.md" for name in shelved] == rows
    assert re.findall(r":caption: (\w+)", index) == ["Start", "Guides", "Reference", "Method"]


def test_every_step_is_in_the_paper_map():
    rooms = (".", "gp", "mixture", "steps", "policy", "learners", "plots")
    files = [path for room in rooms for path in (ROOT / "src/hpsde" / room).glob("*.py") if path.name[0] != "_"]
    steps = {path.relative_to(ROOT).as_posix() for path in files} - {"src/hpsde/cli.py", "src/hpsde/errors.py"}
    named = (ROOT / "docs/paper_map.md").read_text(encoding="utf-8")
    assert {name for name in steps if f"`{name}`" not in named} == set()


def test_example_of_the_readme_is_the_one_in_examples():
    snippets = SNIPPET.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert (ROOT / "examples/own_function.py").read_text(encoding="utf-8") in snippets


WITH_CODE = [page for page in SITE if SNIPPET.search(page.read_text(encoding="utf-8"))]
# Those that a page of the site has, too, are run there.
IN_PAGES = {code for page in WITH_CODE for code in SNIPPET.findall(page.read_text(encoding="utf-8"))}
README_SNIPPETS = [
    code for code in SNIPPET.findall((ROOT / "README.md").read_text(encoding="utf-8")) if code not in IN_PAGES
]


# What a page's code must print, beside anything at all.
WORDS = {"dmp": "ways", "first_policy": "all ways to hit it", "is_my_result_right": "unexplained"}


def run_snippet(code, folder):
    """In a fresh process with JAX's own settings, as a reader would run it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder, env=QUIET, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return done.stdout


@pytest.mark.parametrize("number", range(len(README_SNIPPETS)))
def test_snippets_of_the_readme_run(number, tmp_path):
    run_snippet(README_SNIPPETS[number], tmp_path)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_snippets_of_a_page_run_one_after_the_other(page, tmp_path):
    handmade.by_hand("gp").save(tmp_path / "policy.npz")  # some pages read one
    said = run_snippet("\n".join(SNIPPET.findall(page.read_text(encoding="utf-8"))), tmp_path)
    assert WORDS.get(page.stem, "") in said
    if page.stem == "ask_tell":
        assert_asked_and_told(said)
        assert (tmp_path / "throw.npz").exists()


def assert_asked_and_told(said):
    """What the page on ask and tell prints is right."""
    assert len(SNIPPET.findall((ROOT / "docs/ask_tell.md").read_text(encoding="utf-8"))) == 7
    angle = float(re.search(r"angle for a target at 5 m: \[([\d.]+)\]", said).group(1))
    assert abs(100.0 / 9.81 * np.sin(2.0 * np.radians(angle)) - 5.0) < 1.0
    assert re.search(r"208 rollouts, \d+ failed", said)
    point = np.array(re.search(r"one good point: \[(.*)\]", said).group(1).split(), dtype=float)
    assert min(np.linalg.norm(point - good) for good in ([1.0, 0.0], [-1.0, 0.5])) < 0.3


@pytest.fixture(scope="module")
def first_policy(tmp_path_factory):
    """The folder of a reader of the first page who has saved both functions, and its blocks of commands."""
    page, folder = (ROOT / "docs/first_policy.md").read_text(encoding="utf-8"), tmp_path_factory.mktemp("first")
    for name, word in (("throw", "def throw("), ("table", "def walk(")):
        (code,) = (each for each in SNIPPET.findall(page) if word in each)
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder, SHELL.findall(page)


def run_commands(commands, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-u", "-c", commands],
        cwd=folder, env={**QUIET, "PATH": path}, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_policy_is_seen_by_the_commands_of_its_page(first_policy):
    folder, (commands, _) = first_policy
    said = run_commands(commands, folder)
    angles = [option["parameters"][0] for option in json.loads(said.splitlines()[-1])["options"]]
    np.testing.assert_allclose(sorted(angles), [14.7, 75.3], atol=0.5)  # arcsin(5 g / 100) / 2, and 90 less that
    assert (folder / "throw.html").stat().st_size > 10_000
    assert (folder / "throw.png").stat().st_size > 10_000


def test_an_own_problem_is_learned_by_the_commands_of_the_first_page(first_policy):
    folder, (_, commands) = first_policy
    assert "2 options" in run_commands(commands, folder)
    assert (folder / "table.html").stat().st_size > 10_000
    policy = hpsde.load_policy(folder / "runs/table/policy.npz")
    assert policy.act([[-0.2], [0.2]]).ravel() == pytest.approx([0.4, -0.4], abs=0.1)  # 0.6 beside the table
