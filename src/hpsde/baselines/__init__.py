"""The methods that the paper's is compared with, by the same ask and tell."""

from typing import Any

from hpsde.baselines.creps import CREPS
from hpsde.baselines.hireps import HiREPS, HiREPSSettings

__all__ = ["CREPS", "TUNED", "HiREPS", "HiREPSSettings"]

TUNED: dict[str, dict[str, Any]] = {
    "toy-double": {"epsilon": 2.5},
    "toy-triple": {"epsilon": 2.0},
    "toy-curve": {"epsilon": 2.0},
}
"""HiREPS's settings by task, where others than the defaults serve it better (docs/hireps.md)."""
