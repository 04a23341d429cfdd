"""A copy of a run while it goes on, and a look at whether a run is whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hpsde.base.plain_files import open_plain
from hpsde.base.replacing import replaced
from hpsde.errors import HpsdeError, StorageError
from hpsde.policy.file import load_policy
from hpsde.runs.age import check_age
from hpsde.runs.faults import faults
from hpsde.runs.files import write_json
from hpsde.runs.folder import CONFIG, DATABASE, ENCODER, PAST, POLICY, STATE, prepare_folder
from hpsde.runs.ledger import Ledger
from hpsde.steps.encoders import OwnEncoder


def backup(run: Ledger, to: Path) -> None:
    """A copy of the run in a new or empty folder; others may go on working on the run.

    The database is copied after the learner's state: a state that is behind its database is brought up to date, one
    that is ahead of it is refused. The configuration comes last: without it the folder is no run.
    """
    prepare_folder(to, overwrite=False)
    try:
        for name in (STATE, POLICY, PAST, ENCODER):
            if (run.folder / name).is_file():
                _copy(run.folder / name, to / name)
        with replaced(to / DATABASE) as unfinished:
            run.store.copy_to(unfinished)
        write_json(to / CONFIG, run.made_with.as_dict())
    except OSError as error:
        raise StorageError(f"{to} cannot be written: {error}") from error


def _copy(path: Path, to: Path) -> None:
    with open(open_plain(path), "rb") as source, replaced(to) as unfinished, unfinished.open("wb") as target:
        shutil.copyfileobj(source, target)


def check(run: Ledger) -> dict[str, Any]:
    """What was read without fault of a run that could be opened, and what is `wrong` with the rest.

    Every page of the database, every row, learning step and event, and the policy; and whether the database is older
    than the learner's state. This follows from the rest: where it is damaged it is made again.
    """
    wrong = faults(run.store)
    read: dict[str, Any] = {"rollouts": None, "steps": None, "events": None, "policy": None}

    def attempt(name: str, action: Any) -> None:
        try:
            read[name] = action()
        except (HpsdeError, OSError) as error:
            wrong.append(str(error))

    attempt("rollouts", lambda: len(run.rollouts()))
    attempt("steps", lambda: len(run.store.steps()))
    attempt("events", lambda: len(run.store.events()))
    if (run.folder / POLICY).exists() and run.config.encoder != OwnEncoder.kind:  # which only its user has
        attempt("policy", lambda: len(load_policy(run.folder / POLICY).options))
    if run.config.encoder and run.config.encoder != OwnEncoder.kind:
        attempt("encoder", lambda: run.encoder)
        read.pop("encoder", None)
    try:
        check_age(run.store, run.made_with.run, run.folder / STATE)
    except HpsdeError as error:
        wrong.append(str(error))
    return read | {"wrong": list(dict.fromkeys(wrong))}
