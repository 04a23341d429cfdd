"""Settings in groups: frozen dataclasses whose fields say their range, their choices and what they mean.

A `Group` stands beside the step that reads it. A `Strategy` is a group that also does something: one of several ways
to do a step, known by its name once its class is defined, in this package or elsewhere. `changed` changes settings:

    changed(settings, {"update": "rwr", "update.epsilon": 1.0, "kappa": 2.0})
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

from hpsde.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    T = TypeVar("T")
    Named = Annotated[T, "or its name"]
else:

    class Named:
        """A strategy or a group, which may be given by its name."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Any


KIND = "kind"
"""What the name of a strategy is called among its settings, as in `update.kind`."""


def setting(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    common: bool = False,
) -> Any:
    """A field of a group: its default, one sentence that says what it means, and which values it takes.

    common: one of the few that every user may need.
    """
    said = {"meaning": meaning, "low": low, "high": high, "choices": choices, "common": common}
    return field(default=default, metadata=said)


@dataclass(frozen=True)
class Group:
    """Settings that belong together. Values are checked when it is made."""

    # What it is called, and the field that a value alone stands for, as in features="linear".
    family: ClassVar[str] = ""
    shorthand: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(each.default, Group):
                object.__setattr__(self, each.name, each.default.of(value))
            elif each.metadata:
                check_setting(each, value, self.family if each.name == self.shorthand else each.name)

    def of(self, value: Any) -> Any:
        """A group in place of this one: a group itself, or by a value alone this one with another `shorthand`."""
        if isinstance(value, type(self)):
            return value
        if self.shorthand is None:
            raise InputError(f"expected hpsde.{type(self).__name__}(...) or settings by name; got {value!r:.80}")
        return replace(self, **{self.shorthand: value})


@dataclass(frozen=True)
class Strategy(Group):
    """One way to do a step. A class of its own is known by `name=`, or by its class's name in small letters.

    The class that all ways to do a step are derived from says `family=`, what the step is called.
    """

    name: ClassVar[str] = ""
    known: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, *, family: str = "", name: str = "", listed: bool = True, **others: Any) -> None:
        super().__init_subclass__(**others)
        if family:
            cls.family, cls.known = family, {}
            return
        cls.name = name or cls.__name__.lower()
        if not listed:
            return
        before = cls.known.get(cls.name)
        if before is not None and (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InputError(
                f"{cls.family}: the name {cls.name!r} is taken by {before.__module__}.{before.__qualname__}"
            )
        cls.known[cls.name] = cls

    def of(self, value: Any) -> Any:
        """A strategy of the same family: one itself, or by its name, with those settings of this one that it has."""
        if isinstance(value, Strategy) and value.family == self.family:
            return value
        if not isinstance(value, str) or value not in self.known:
            raise UnknownNameError(self.family, str(value), self.known)
        kind = self.known[value]
        both = {each.name for each in fields(kind)} & {each.name for each in fields(self)}
        return self if kind is type(self) else kind(**{name: getattr(self, name) for name in both})


def check_setting(each: Field[Any], value: Any, name: str) -> None:
    """An error, which calls it by this name, unless the value is one that the field may have."""
    said = each.metadata
    check_type(name, each.type, value)
    if isinstance(value, str) and value not in said["choices"]:
        raise UnknownNameError(name.replace("_", " "), value, said["choices"])
    low, high = said["low"], said["high"]
    if low is None or isinstance(value, str | None) or callable(value):
        return
    if high is None and not low <= value:
        raise InputError(f"{name} must be {_or_none(each)}at least {low}; got {value}")
    if high is not None and not low <= value <= high:
        raise InputError(f"{name} must {_or_none(each, 'be ')}lie between {low} and {high}; got {value}")


def _or_none(each: Field[Any], verb: str = "") -> str:
    return f"{verb}None or " if "None" in str(each.type) else ""


def check_type(name: str, annotation: Any, value: Any) -> None:
    """An error unless the value is of the kind that the annotation names."""
    named = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    kinds = re.sub(r"\[.*\]", "", named).split(" | ")
    allowed = {
        "float": isinstance(value, Real) and not isinstance(value, bool),
        "int": isinstance(value, Integral) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "None": value is None,
        "Callable": callable(value),
    }
    wanted = [kind for kind in allowed if kind in kinds]
    if wanted and not any(allowed[kind] for kind in wanted):
        raise InputError(f"{name} must be {' or '.join(wanted)}; got {value!r}")


G = TypeVar("G", bound=Group)


def changed(group: G, changes: Mapping[str, Any], old_names: Mapping[str, str] | None = None) -> G:
    """The group with changes by name: first groups as wholes, then single settings one after the other.

    A name is that of a field, of a field in one of its groups (`update.epsilon`), or the latter's last part where no
    other group has it. Of several ways to do a step, those that are not taken may have settings of their own: these
    change nothing. old_names: what settings were called before.
    """
    new: dict[str, Any] = {}
    for name, value in sorted(changes.items(), key=lambda change: not _has(group, change[0])):
        found = full_name(group, name, old_names)
        top, _, rest = found.partition(".")
        before = new.get(top, getattr(group, top))
        if not isinstance(before, Group):
            new[top] = value
        elif rest in ("", KIND if isinstance(before, Strategy) else ""):
            new[top] = before.of(value)
        elif found == name or _has(before, rest.partition(".")[0]):
            new[top] = changed(before, {rest: value})
    return replace(group, **new)


def full_name(group: Group, name: str, old_names: Mapping[str, str] | None = None) -> str:
    """The name with those of its groups; UnknownNameError where there is no such setting."""
    if old_names and name in old_names:
        return full_name(group, old_names[name])
    top, _, rest = name.partition(".")
    own = {each.name: each.default for each in fields(group)}
    if top in own and (not rest or isinstance(own[top], Group)):
        return name
    for part, default in own.items():
        if not rest and isinstance(default, Group) and any(_has(kind, name) for kind in _kinds(default)):
            return f"{part}.{name}"
    raise UnknownNameError("setting", name, setting_names(group))


def _kinds(group: Group) -> list[Any]:
    """The group's class or, where it is one of several ways to do a step, all of them."""
    return list(group.known.values()) if isinstance(group, Strategy) else [type(group)]


def _has(kind: Any, name: str) -> bool:
    """Whether a group, or a class of groups, has this field."""
    return name in kind.__dataclass_fields__


def named(group: Group, prefix: str = "") -> dict[str, Any]:
    """All settings by their full names; a strategy, and a group that has a shorthand, by its own name, too."""
    found: dict[str, Any] = {}
    for each in fields(group):
        value = getattr(group, each.name)
        if not isinstance(value, Group):
            found[prefix + each.name] = value
            continue
        found |= said_of(value, prefix + each.name)
    return found


def said_of(group: Group, name: str) -> dict[str, Any]:
    """The settings of a group that has this name: `{"update": "rwr", "update.epsilon": 1.0, ...}`."""
    inside = named(group, f"{name}.")
    if isinstance(group, Strategy):
        return {name: group.name} | inside
    if group.shorthand is not None:
        return {name: inside.pop(f"{name}.{group.shorthand}")} | inside
    return inside


def setting_names(group: Group) -> tuple[str, ...]:
    """The full names of all settings."""
    return tuple(named(group))


class Described(NamedTuple):
    """A setting in words: its full name, its value, which values it may have and what it means."""

    name: str
    value: Any
    values: str
    meaning: str
    common: bool


def described(group: Group, prefix: str = "") -> list[Described]:
    """All settings in words, group by group."""
    found = []
    for each in fields(group):
        value, said, name = getattr(group, each.name), each.metadata, prefix + each.name
        if not isinstance(value, Group):
            found.append(Described(name, value, _values(each), said["meaning"], said["common"]))
            continue
        inside = described(value, f"{name}.")
        if isinstance(value, Strategy):
            kinds = [f"{kind.name}: {(kind.__doc__ or '').strip().splitlines()[0]}" for kind in _kinds(value)]
            meaning = " ".join([said["meaning"], *kinds])
            found.append(Described(name, value.name, " | ".join(value.known), meaning, said["common"]))
        found += [line._replace(name=name) if line.name == f"{name}.{value.shorthand}" else line for line in inside]
    return found


def _values(each: Field[Any]) -> str:
    """Which values a setting may have: its choices, or its range."""
    said = each.metadata
    if said["choices"]:
        return " | ".join(said["choices"]) + (" | a function" if "Callable" in str(each.type) else "")
    if said["low"] is None:
        return "True | False" if "bool" in str(each.type) else ""
    endless = said["high"] in (None, math.inf)
    between = f"{said['low']:g} or more" if endless else f"{said['low']:g} to {said['high']:g}"
    return f"None | {between}" if "None" in str(each.type) else between
