"""How a task travels to other processes and machines: as bytes, by cloudpickle."""

from __future__ import annotations

import functools
import pickle
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from hpsde.errors import InputError


def packed_task(task: Any, *, with_modules: bool = False) -> bytes:
    """The task as bytes for `unpacked_task`.

    with_modules: for workers that cannot import what this process can. Functions and classes of the user's own
        modules travel along; see `own_modules`.
    """
    registered = cloudpickle.list_registry_pickle_by_value()
    modules = [module for module in own_modules(task) if module.__name__ not in registered] if with_modules else []
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(task)
    except Exception as error:
        raise InputError(
            f"the task must be picklable to travel to other processes; {type(task).__name__} is not: {error}"
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


@functools.lru_cache(maxsize=4)
def unpacked_task(packed: bytes) -> Any:
    """The task, loaded once in a process."""
    try:
        return pickle.loads(packed)
    except Exception as error:
        raise InputError(f"the task could not be loaded in a worker:\n{traceback.format_exc()}") from error


def own_modules(task: Any) -> list[ModuleType]:
    """The modules that were loaded from files in or below the folders of the task and of what it is made of.

    What is installed is left out, as are Python's own modules and hpsde: the workers have them.
    """
    names = {getattr(part, "__module__", None) or type(part).__module__ for part in _parts(task)}
    files = [_source(sys.modules.get(name.partition(".")[0])) for name in names]
    # The file of a package is NAME/__init__.py: what is imported beside it lies a folder higher.
    folders = [file.parents[file.name == "__init__.py"] for file in files if file is not None and not _installed(file)]
    found = []
    for name, module in list(sys.modules.items()):
        file = _source(module) if getattr(module, "__name__", None) == name else None
        if file is not None and not _installed(file) and any(file.is_relative_to(folder) for folder in folders):
            found.append(module)
    return found


def _parts(thing: Any, depth: int = 4) -> Iterator[Any]:
    """The thing and what it holds, such as the function of a task or the controller of that function."""
    yield thing
    if depth and not isinstance(thing, type | ModuleType | FunctionType):
        for part in getattr(thing, "__dict__", {}).values():
            yield from _parts(part, depth - 1)


def _source(module: Any) -> Path | None:
    """The Python file of a module; None where there is none, as for compiled ones."""
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) and name.endswith(".py") else None


def _installed(file: Path) -> bool:
    return any(file.is_relative_to(place) for place in _installed_places())


@functools.cache
def _installed_places() -> tuple[Path, ...]:
    hpsde = Path(__file__).parent.parent
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    python = [sysconfig.get_paths()[kind] for kind in kinds] + site.getsitepackages() + [site.getusersitepackages()]
    # Those of another environment, which a .pth file or PYTHONPATH has added.
    python += [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    return (hpsde.resolve(), *(Path(place).resolve() for place in python))
