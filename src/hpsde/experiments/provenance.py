"""Which version of hpsde made a table of rows, and with which defaults: kept beside the rows, said on their page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from hpsde.errors import InputError
from hpsde.methods import DEFAULT_METHOD, method_settings
from hpsde.runs.files import read_json, write_json
from hpsde.settings import short_names

SUFFIX = ".made.json"


class Made(NamedTuple):
    """A version, and the default learner's settings in it by their short names."""

    version: str
    settings: Mapping[str, Any]

    @property
    def is_present(self) -> bool:
        """Whether these are the present defaults."""
        return dict(self.settings) == present().settings


def present() -> Made:
    """This version and its defaults."""
    settings = short_names(method_settings(DEFAULT_METHOD))
    return Made(version("hpsde"), {name: getattr(value, "__name__", value) for name, value in settings.items()})


def made_file(rows: Path) -> Path:
    """Where it is kept: beside the rows."""
    return rows.with_suffix(SUFFIX)


def keep(rows: Path) -> None:
    """Note it for rows that are about to be made; for rows that nobody noted it of, nobody knows.

    An error where the file holds rows of other defaults.
    """
    before = read(rows)
    if rows.exists() and before is not None and not before.is_present:
        raise InputError(
            f"{rows} holds runs of version {before.version} with other defaults ({_changes(before)}); "
            "give another --out, or remove that file"
        )
    if not rows.exists() or before is not None:
        rows.parent.mkdir(parents=True, exist_ok=True)
        write_json(made_file(rows), present()._asdict())


def read(rows: Path) -> Made | None:
    """What made the rows; None where nobody has noted it."""
    path = made_file(rows)
    return Made(**read_json(path)) if path.is_file() else None


def made_text(made: Made | None) -> str:
    """A sentence for the page of the rows."""
    if made is None:
        return "Nobody has noted which version made these rows."
    now = present()
    if made.is_present and made.version == now.version:
        return f"Made by hpsde {made.version} with its defaults."
    if made.is_present:
        return (
            f"**Made by an older version**, hpsde {made.version}, with settings that are the defaults of "
            f"{now.version} too."
        )
    return (
        f"**Made by an older version**, hpsde {made.version}, with other defaults than {now.version}: {_changes(made)}."
    )


def seeds_text(seeds: Iterable[int]) -> str:
    """'seeds 10030, 10031, 10036 to 10040'."""
    known = sorted(set(seeds))
    starts = [seed for seed in known if seed - 1 not in known]
    ends = [seed for seed in known if seed + 1 not in known]
    parts = [
        f"{low} to {high}" if high > low + 1 else f"{low}, {high}" if high > low else str(low)
        for low, high in zip(starts, ends, strict=True)
    ]
    listed = ", ".join(parts)
    return f"seed{'s' if len(known) > 1 else ''} {listed}"


def _changes(made: Made) -> str:
    """What has changed since: 'other: `epsilon` (1.5, now 3.0); new: `refine`'."""
    then, now = made.settings, present().settings
    other = [f"`{name}` ({then[name]}, now {now[name]})" for name in now if name in then and then[name] != now[name]]
    new = [f"`{name}`" for name in now if name not in then]
    gone = [f"`{name}`" for name in then if name not in now]
    parts = (("other", other), ("new", new), ("gone", gone))
    return "; ".join(f"{text}: {', '.join(names)}" for text, names in parts if names)
