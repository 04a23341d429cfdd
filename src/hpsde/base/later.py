"""Modules that are loaded when something of them is first used: commands that need none of them answer at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for the module of that name."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        self.__dict__[name] = value
        return value
