"""Doubts in JSON: {"kind": ..., "value": ..., "text": ...}, in policy files, databases and what commands print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpsde.base.checks import LARGEST
from hpsde.policy.doubts import Doubt


def doubt_entries(doubts: Iterable[Doubt]) -> list[dict[str, Any]]:
    """One object for each. A value that JSON cannot say, infinity or NaN, is null; texts are of one line."""
    return [
        {
            "kind": _one_line(doubt.kind),
            "value": float(doubt.value) if abs(doubt.value) <= LARGEST else None,
            "text": _one_line(doubt.text),
        }
        for doubt in doubts
    ]


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def doubts_from(entries: Any) -> tuple[Doubt, ...]:
    """What `doubt_entries` gave, null as NaN; a ValueError where it is something else."""
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise ValueError(f"doubts: expected a list of objects with kind, value and text, got {str(entries)[:60]!r}")
    return tuple(
        Doubt(entry["kind"], float("nan") if entry["value"] is None else float(entry["value"]), entry["text"])
        for entry in entries
    )


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or sorted(entry) != ["kind", "text", "value"]:
        return False
    value = entry["value"]
    number = value is None or (type(value) in (int, float) and abs(value) <= LARGEST)
    # People will read it: nothing in it may steer their terminal.
    return number and all(isinstance(entry[name], str) and entry[name].isprintable() for name in ("kind", "text"))
