"""Whether a run's database is as new as the learner's state beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from hpsde.base.archive import read_arrays
from hpsde.errors import FileFormatError
from hpsde.runs.events import revision
from hpsde.runs.reading import StoreReader


class Age(NamedTuple):
    """How many corrections of what was learned from there have been, and how many learning steps."""

    corrections: int
    steps: int


def check_age(store: StoreReader, run: str, state: Path) -> None:
    """FileFormatError where the database has not all that the learner's state of the run `run` has seen.

    Everything is in the database before it is in the state: so the state is read first, for others may go on meanwhile.
    """
    known = _age_of_state(run, state)
    if known is None:
        return
    found = Age(revision(store.events()), store.position()[2])
    if found >= known:
        return
    if found.corrections < known.corrections:
        what = f"it has {found.corrections} corrections of what was learned, the learner had seen {known.corrections}"
    else:
        what = f"it has {found.steps} learning steps, the learner had made {known.steps}"
    raise FileFormatError(
        f"{store.path} is older than {state.name}: {what}. It is an old copy, or one without {store.path.name}-wal, "
        "and rollouts are missing. Put the whole database in its place, both files; if what is missing is lost for "
        f"good, remove {state.name} to go on from step {found.steps}: numbers of lost rollouts are then given again"
    )


def _age_of_state(run: str, state: Path) -> Age | None:
    """What the state says of itself; None where it is missing, damaged or another run's: then it is made again."""
    try:
        header = json.loads(str(read_arrays(state, "a learner's state", only=("header",))["header"]))
        origin, _, corrections = header["origin"].partition(" corrected ")
        age = Age(int(corrections or 0), int(header["state"]["info"]["fields"]["updates"]))
    except (FileFormatError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return age if origin == run else None
