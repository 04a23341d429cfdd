"""Records of learning steps as the database has them: JSON objects of numbers by name, options and doubts."""

from __future__ import annotations

import json
from typing import Any

from hpsde.base.checks import LARGEST
from hpsde.policy.doubt_entries import doubts_from


def read_record(text: str) -> dict[str, Any]:
    """The record of a learning step: numbers by name, options by number, and doubts; ValueError where it is none."""
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError(f"{text[:60]!r} is not numbers by name")
    for name, value in record.items():
        if name in ("numbers", "born", "died"):
            right = isinstance(value, list) and all(type(item) is int and 0 < item < 2**63 for item in value)
        elif name == "doubts":
            doubts_from(value)
            right = True
        else:
            right = value is None or (isinstance(value, (int, float)) and abs(value) <= LARGEST)
        if not right:
            raise ValueError(f"{name}: {str(value)[:60]!r} is not what it should be")
    return record
