"""Build the package as it would be published, and try it: `make package`.

    python tests/check_package.py [--pythons python3.11 /path/to/python3.13] [--out dist]

Source archive and wheel (made from that archive), twine's checks, what is in them; then for every Python the wheel
alone in a clean environment: version, the demo, and a small typed program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
WANTED = ("python3.11", "python3.12", "python3.13", "python3.14")
SOURCE = (
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "PACKAGE.md", "README.md", ".ci/run"),
    *("constraints.txt", "pyproject.toml", "src/hpsde/py.typed", "tests/test_package.py", "tests/digests.json"),
    *("tests/samples/config_1_flat.json", "docs/index.md", "docs/images/toy-triple.png", "examples/own_function.py"),
    *("examples/my_problem.toml", "benchmarks/gauntlet.py", "benchmarks/results/gauntlet.csv"),
)
WHEEL = ("hpsde/py.typed", "hpsde/cli.py", "hpsde/mixture/forms.py", "hpsde/serve/page/")
CONSUMER = """
import numpy as np

import hpsde


def shot(context: np.ndarray, parameters: np.ndarray) -> float:
    return -abs(float(parameters[0]) ** 2 - float(context[0]))


def best(seed: int) -> np.ndarray:
    policy: hpsde.HierarchicalPolicy = hpsde.learn(
        shot, contexts=hpsde.Uniform(1.0, 4.0), initial=hpsde.Uniform(-3.0, 3.0), seed=seed
    )
    doubts: list[str] = [doubt.kind for doubt in policy.doubts]
    print(doubts, [option.number for option in policy.options])
    return policy.act([2.0])
"""
"""What a user's program may be, for mypy --strict."""


def build(out: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel that is made from it."""
    for kept in ROOT.glob("src/*.egg-info/SOURCES.txt"):  # what an earlier archive had would be taken again
        kept.unlink()
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return source, wheel


def missing(names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """What is wanted and not there; a name that ends in / is a folder that has anything in it."""
    folders = {given[: place + 1] for given in names for place, letter in enumerate(given) if letter == "/"}
    return [name for name in wanted if name not in folders and name not in names]


def source_names(archive: Path) -> list[str]:
    """Names of all files, without the folder that the archive unpacks to."""
    with tarfile.open(archive) as opened:
        return [member.name.partition("/")[2] for member in opened if member.isfile()]


def wheel_names(wheel: Path) -> list[str]:
    """Names of all files."""
    with zipfile.ZipFile(wheel) as opened:
        return opened.namelist()


def unwanted(names: list[str]) -> list[str]:
    """Names of what is made here and belongs to nobody."""
    return [name for name in names if "__pycache__" in name or name.startswith(("runs/", "demo/", ".venv/", "dist/"))]


def pythons() -> list[str]:
    """Those of `WANTED` that can be started."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for name in WANTED:
        candidates = [shutil.which(name) or "", *map(str, sorted(kept.glob(f"*/bin/{name}")))]
        works = [one for one in candidates if one and subprocess.run([one, "-V"], capture_output=True).returncode == 0]
        found += works[:1]
    return found


def try_in(python: str, wheel: Path, source: Path, folder: Path) -> None:
    """The wheel without extras in a clean environment: version, demo, and types."""
    subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
    programs = folder / "env" / "bin"
    begun = time.perf_counter()

    def say(*command: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [str(programs / command[0]), *command[1:]],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{python}: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
        return done.stdout

    say("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    installed = time.perf_counter()
    version = say("hpsde", "--version").strip()
    if version.split()[1] != wheel.name.split("-")[1]:
        sys.exit(f"{python}: `hpsde --version` says {version}, the wheel is {wheel.name}")
    with tarfile.open(source) as opened:
        opened.extractall(folder, filter="data")
    (unpacked,) = folder.glob("hpsde-*")
    say("hpsde", "run", "toy-triple", "--seed", "1", "--quiet", "--out", "triple")
    say("hpsde", "plot", "triple", "--out", "triple.png")
    found = say("python", str(unpacked / "examples" / "explain_demo.py"), "triple", "triple.png")
    demonstrated = time.perf_counter()
    typed = check_types(folder, programs / "python")
    if typed:
        sys.exit(f"{python}: {typed}")
    spent = f"installed in {installed - begun:.0f} s, demo in {demonstrated - installed:.0f} s"
    print(f"{python}: {version}, {spent}, types agree")
    print("  " + next(line for line in found.splitlines() if line.startswith("What it found")))


def check_types(folder: Path, python: Path) -> str:
    """What mypy --strict says against a program that uses the hpsde that this Python has; nothing if all is well."""
    (folder / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(ROOT / ".mypy_cache/consumer"),
        "--python-executable",
        str(python),
    ]
    done = subprocess.run([*command, "consumer.py"], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="*", default=None, help="those there are of " + ", ".join(WANTED))
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty folder, or one that is replaced")
    chosen = parser.parse_args()
    shutil.rmtree(chosen.out, ignore_errors=True)
    source, wheel = build(chosen.out)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(source), str(wheel)], check=True)
    wrong = missing(source_names(source), SOURCE) + missing(wheel_names(wheel), WHEEL)
    wrong += unwanted(source_names(source) + wheel_names(wheel))
    if wrong:
        sys.exit(f"missing, or not wanted: {wrong}")
    for file, names in ((source, source_names(source)), (wheel, wheel_names(wheel))):
        print(f"{file.name}: {len(names)} files, {file.stat().st_size / 1e6:.1f} MB")
    for python in pythons() if chosen.pythons is None else chosen.pythons:
        with tempfile.TemporaryDirectory() as folder:
            try_in(python, wheel, source, Path(folder))


if __name__ == "__main__":
    main()
