"""The gallery: tasks in which everybody sees several solutions: billiards, a throw, a flight."""

from __future__ import annotations

from collections.abc import Callable

from hpsde.tasks.gallery.billiards import BankShot, bank_shot, bank_shot_spin
from hpsde.tasks.gallery.drone import Drone
from hpsde.tasks.gallery.throw import Throw, throw_task
from hpsde.tasks.task import Task

__all__ = ["GALLERY", "BankShot", "Drone", "Throw", "bank_shot", "bank_shot_spin", "throw_task"]

GALLERY: dict[str, Callable[[], Task]] = {
    "bank-shot": bank_shot,
    "bank-shot-spin": bank_shot_spin,
    "throw": throw_task,
    "drone": Drone,
    "drone-60": lambda: Drone(60),
}
