"""What `import hpsde` may do and what the core may import."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import hpsde
from patience import LONG

PACKAGE = Path(hpsde.__file__).parent
# What each room may import beside itself, and what these may import in turn. A room is a folder, or a module beside it.
ROOMS = {
    "errors": "",
    "base": "errors",
    "gp": "base",
    "mixture": "base",
    "tasks": "base",
    "steps": "gp mixture",
    "policy": "steps",
    "settings": "steps",
    "algorithm": "settings",
    "learners": "algorithm policy",
    "methods": "learners tasks",
    "learning": "methods",
    "problems": "steps tasks",
    "runs": "learning problems",
    "plots": "policy tasks",
    "sklearn": "mixture",
    "__init__": "runs",
    "experiments": "runs plots",
    "serve": "runs plots __init__",
    "commands": "experiments serve",
    "cli": "commands",
    "__main__": "cli",
}
FIRST_LEVEL = 12  # modules beside the folders, at most
EXTRAS = ("tasks/gym.py", "tasks/mujoco_arm.py")  # tasks that need an extra, imported when used
# The shells: the command, the pictures and the scikit-learn estimator may import more, and only when used.
SHELLS = (
    "cli.py",
    "__main__.py",
    "base/progress.py",
    "sklearn.py",
    "commands/",
    "experiments/",
    "plots/",
    "runs/",
    "serve/",
    *EXTRAS,
)
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
CORE = [name for name in MODULES if not name.startswith(SHELLS)]
KNOWN = {"hpsde." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in MODULES}
ALLOWED = {"jax", "numpy", "scipy", "hpsde"}


@functools.cache
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


@functools.cache
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG, check=False)
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
heavy = ("sklearn", "matplotlib", "rich", "tyro", "pandas", "loky", "distributed", "gymnasium", "mujoco", "fastapi")
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


def test_learning_a_function_loads_no_jax_and_lists_no_scipy():
    code = """
import sys
from hpsde.cli import main
assert main(["settings"]) == 0
assert main(["tasks"]) == 0
assert not {"jax", "scipy"} & set(sys.modules)
import hpsde
made = {"initial": hpsde.Uniform(-1.0, 1.0), "contexts": hpsde.Uniform(0.0, 1.0)}
policy = hpsde.learn(lambda s, xi: -abs(xi[0] - s[0]), **made, rollouts=120, initial_rollouts=80, progress=False)
policy.act(0.5), policy.sample(0, 0.5), policy.log_prob([0.5], [[0.5]])
print("loaded:", *(m for m in ("jax", "matplotlib") if m in sys.modules))
"""
    assert run_python(code).splitlines()[-1] == "loaded:"


def test_what_loads_jax_has_64_bits_from_its_first_call_on():
    code = """
import sys
from hpsde.base.draws import make_key, with_key

def draw(key, n):
    import jax
    return jax.random.uniform(key, (n,))

assert "jax" not in sys.modules
print(*(with_key(draw, make_key(5), 4).dtype for _ in range(2)))
"""
    assert run_python(code).split() == ["float64", "float64"]


def test_learning_goes_on_while_another_thread_loads_jax():
    code = """
import sys, types
import hpsde
learner = hpsde.HPSDE(1, 1, initial=hpsde.Uniform(-1.0, 1.0), initial_rollouts=20)
sys.modules["jax"] = types.ModuleType("jax")  # as it is while it is loaded: nearly empty
for _ in range(2):
    contexts = [[float(i)] for i in range(20)]
    parameters = learner.ask(contexts).parameters
    learner.tell(contexts, parameters, [-abs(each[0]) for each in parameters])
print(learner.policy.log_prob([0.5], [[0.5]]).shape)
"""
    assert run_python(code).split() == ["(1,)"]


def test_methods_are_listed_without_loading_a_learner():
    code = """
import sys
from hpsde.cli import main
assert main(["methods"]) == 0
print("loaded:", *(m for m in ("jax", "numpy", "scipy", "matplotlib") if m in sys.modules))
"""
    lines = run_python(code).splitlines()
    assert lines[-1] == "loaded:"
    assert {line.split()[0] for line in lines[1:-1]} == set(hpsde.methods.METHODS)


@pytest.mark.parametrize("name", CORE)
def test_core_imports_only_jax_numpy_scipy(name):
    allowed = ALLOWED | ({"jaxtyping"} if name == "base/shapes.py" else set())
    foreign = {module.split(".")[0] for module in imports(name)} - allowed - set(sys.stdlib_module_names)
    assert not foreign, f"{name} imports {sorted(foreign)}"


def room_of(module: str) -> str:
    """The room of a module by its full name, such as steps of hpsde.steps.weights; that of hpsde itself is __init__."""
    return [*module.split("."), "__init__"][1]


def reachable(room: str) -> set[str]:
    """The room, those it may import, those they may import, and so on."""
    return {room}.union(*(reachable(other) for other in ROOMS[room].split()))


@pytest.mark.parametrize("name", MODULES)
def test_a_room_imports_only_rooms_below_it(name):
    allowed = reachable(name.split("/")[0].removesuffix(".py"))
    above = {module for module in imports(name) if module.split(".")[0] == "hpsde" and room_of(module) not in allowed}
    assert not above, f"{name} imports {sorted(above)}"


def test_rooms_are_those_of_the_table_and_few_modules_stand_outside():
    assert {name.split("/")[0].removesuffix(".py") for name in MODULES} == set(ROOMS)
    assert len([name for name in MODULES if "/" not in name]) <= FIRST_LEVEL


def test_a_public_class_has_a_name_of_its_own():
    """But for `Command`, which every command has."""
    found: dict[str, str] = {}
    for name in MODULES:
        for node in statements(name, at_import=False):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Command":
                assert node.name not in found, f"{node.name} is in {found[node.name]} and in {name}"
                found[node.name] = name
    assert len(found) > 100


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
