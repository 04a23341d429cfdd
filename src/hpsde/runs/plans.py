"""Plans that change: `config.json` says what was planned at first, events what was changed about it since, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hpsde.runs.config import RunConfig
from hpsde.runs.events import EXTENDED, SET, Event, of_kind


def planned(config: RunConfig, events: Sequence[Event]) -> RunConfig:
    """What is planned now, after all changes of the configuration that the run was made with."""
    settings = dict(config.settings)
    for event in of_kind(events, SET):
        settings = merged(settings, event["settings"])
    rollouts = [event["rollouts"] for event in of_kind(events, EXTENDED)]
    return replace(config, settings=settings, rollouts=rollouts[-1] if rollouts else config.rollouts)


def planned_first(config: RunConfig, events: Sequence[Event]) -> RunConfig:
    """What was planned when the first learning step began."""
    return planned(config, [event for event in of_kind(events, SET) if event["step"] == 0])


def changes_after(events: Sequence[Event], step: int) -> dict[str, Any]:
    """The settings that were changed between this learning step and the next."""
    changes: dict[str, Any] = {}
    for event in of_kind(events, SET):
        if event["step"] == step:
            changes = merged(changes, event["settings"])
    return changes


def merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings by name, and what was changed after them; a strategy takes the place of the one before, and of its
    settings.
    """
    left = {name: value for name, value in settings.items() if not {name, name.partition(".")[0]} & changes.keys()}
    return left | changes
