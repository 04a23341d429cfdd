"""The user's own object by its name, "module:object" or "path/to/file.py:object". This runs the user's code.

A module that was found in a folder keeps that folder on `sys.path`, as after `python -m`: what it imports
later is found, too, and so are both in worker processes, which get the path of the process that starts them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hpsde.errors import InputError

__all__ = ["load_object"]


def load_object(name: str, folder: Path | None = None) -> Any:
    """The object `name`, looked for in `folder`, then in the current directory, then where Python looks."""
    where, _, attributes = name.rpartition(":")
    folders = [Path.cwd()] if folder is None else [folder, Path.cwd()]
    module = _load_file(where, folders) if where.endswith(".py") else _load_module(where, folders)
    found: Any = module
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise InputError(f"{name}: {_place(module)} has no {attribute!r}")
        found = getattr(found, attribute)
    return found


def _load_module(name: str, folders: list[Path]) -> ModuleType:
    for folder in reversed(folders):
        _put_first(folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            places = ", ".join(str(folder) for folder in dict.fromkeys(folders))
            raise InputError(f"there is no module {name!r} in {places}, nor is it installed") from None
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _load_file(name: str, folders: list[Path]) -> ModuleType:
    """The module in that file, under the file's own name, by which worker processes can import it again."""
    paths = [folder / name for folder in folders]
    path = next((path.resolve() for path in paths if path.is_file()), None)
    if path is None:
        raise InputError(f"there is no file {' or '.join(str(path) for path in dict.fromkeys(paths))}")
    _put_first(path.parent)
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if _file_of(loaded) == path:
            return loaded
        raise InputError(f"{path} cannot be loaded: {_place(loaded)} has the same name; rename the file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.stem.isidentifier():
        raise InputError(f"{path}: expected the name of a Python module and .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[path.stem]
        raise _failed(str(path), error) from error
    return module


def _put_first(folder: Path) -> None:
    entry = str(folder.resolve())
    if entry in sys.path:
        sys.path.remove(entry)
    sys.path.insert(0, entry)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()


def _place(module: ModuleType) -> str:
    """The module and where it came from: another one of that name may be meant."""
    return f"the module {module.__name__!r} ({_file_of(module) or 'built in'})"


def _failed(name: str, error: BaseException) -> InputError:
    return InputError(f"importing {name} failed: {type(error).__name__}: {error}")
