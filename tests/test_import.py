"""What `import hpsde` may do and what the core may import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hpsde

PACKAGE = Path(hpsde.__file__).parent
EXTRAS = ("tasks/gym.py", "tasks/mujoco_arm.py")  # tasks that need an extra, imported when used
FOLDERS = ("commands/", "runs/", "experiments/")
# The shells: the command, the pictures and the scikit-learn estimator may import more, and only when used.
SHELLS = (
    "cli.py",
    "__main__.py",
    "plots.py",
    "plot_maps.py",
    "plot_slices.py",
    "plot_style.py",
    "plot_routes.py",
    "plot_rover.py",
    "plot_arm.py",
    "_progress.py",
    "sklearn.py",
    *FOLDERS,
    *EXTRAS,
)
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
CORE = [name for name in MODULES if not name.startswith(SHELLS)]
KNOWN = {"hpsde." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in MODULES}
ALLOWED = {"jax", "numpy", "scipy", "hpsde"}


def statements(name: str, at_import: bool) -> list[ast.stmt]:
    """All statements of a file, or those that run when it is imported."""
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    if not at_import:
        return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return [
        inner
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.stmt)
    ]


def imports(name: str, at_import: bool = False) -> set[str]:
    """The full names of all modules that a file imports: anywhere, or when it is itself imported."""
    found = set()
    for node in statements(name, at_import):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & KNOWN
            found |= submodules or {node.module}
    return found


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_changes_no_jax_setting_and_loads_nothing_heavy():
    code = """
import sys, jax
before = dict(jax.config.values)
import hpsde
for name in hpsde.__all__:
    getattr(hpsde, name)
import hpsde.tasks, hpsde.methods, hpsde.learning
assert dict(jax.config.values) == before, "a JAX setting was changed"
heavy = ("sklearn", "matplotlib", "rich", "tyro", "pandas", "loky", "distributed", "gymnasium", "mujoco")
print(*(m for m in heavy if m in sys.modules))
"""
    assert run_python(code).split() == []


def test_command_line_help_does_not_load_jax():
    code = """
import sys
from hpsde.cli import main
assert main(["--help"]) == 0
assert main(["--version"]) == 0
print("loaded:", *(m for m in ("jax", "numpy", "scipy", "matplotlib") if m in sys.modules))
"""
    assert run_python(code).splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("name", CORE)
def test_core_imports_only_jax_numpy_scipy(name):
    allowed = ALLOWED | ({"jaxtyping"} if name == "_shapes.py" else set())
    foreign = {module.split(".")[0] for module in imports(name)} - allowed - set(sys.stdlib_module_names)
    assert not foreign, f"{name} imports {sorted(foreign)}"


@pytest.mark.parametrize("name", CORE)
def test_core_imports_no_shell(name):
    shells = {
        "hpsde.cli",
        "hpsde.commands",
        "hpsde.plots",
        "hpsde.plot_maps",
        "hpsde.plot_slices",
        "hpsde.plot_style",
        "hpsde.plot_routes",
        "hpsde.plot_arm",
        "hpsde.sklearn",
        "hpsde.runs",
        "hpsde.experiments",
    }
    assert not imports(name) & shells


def test_imports_go_one_way():
    modules = {
        name: "hpsde." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in MODULES
    }
    graph = {module: (imports(name, at_import=True) & KNOWN) - {module} for name, module in modules.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"import cycle: {' -> '.join((*path, module))}"
        if module in done:
            return
        for other in sorted(graph[module]):
            visit(other, (*path, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_tasks_import_no_learner():
    own = {name for name in CORE if name.startswith("tasks/")}
    assert own
    for name in own:
        learners = {"learner", "algorithm", "policy", "methods", "learning", "density", "gating", "options"}
        assert not imports(name) & {f"hpsde.{learner}" for learner in learners}, name
