"""The files of a run's folder, by name."""

from __future__ import annotations

from pathlib import Path

from hpsde.base.plain_files import check_plain
from hpsde.errors import FileFormatError, InputError, StorageError
from hpsde.runs.lock import RunLock

CONFIG = "config.json"
"""What was asked for, and the versions it was made with."""
ENCODER = "encoder.npz"
"""What makes a few numbers of a context, where contexts are pictures. Written once."""
DATABASE = "rollouts.sqlite"
"""All rollouts and learning steps. The one file that everything else follows from."""
STATE = "learner.npz"
"""What the learner remembers, so that it need not learn everything again."""
POLICY = "policy.npz"
"""The policy of the last learning step (`hpsde.load_policy`)."""
PAST = "past.policies"
"""Policies of past learning steps, thinned, to replay the learning."""
ITERATIONS = "iterations.csv"
"""One line per learning step: rollouts, returns, options, ESS, seconds."""
RESULT = "result.json"
"""What was found, when the run has reached its end."""
LOG = "log.txt"
"""What happened when, for people."""
LOCK = "lock"
"""Who is working on the run now."""

OF_DATABASE = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
FILES = (CONFIG, ENCODER, *OF_DATABASE, STATE, POLICY, PAST, ITERATIONS, RESULT, LOG, LOCK)


def check_files(folder: Path) -> None:
    """FileFormatError where something in the folder has the name of a run's file and is no plain file, such as a link.

    Where a file is opened here, this is asked once more; SQLite opens its files itself.
    """
    for name in (*FILES, f"{DATABASE}-journal"):
        check_plain(folder / name)


def check_parts(folder: Path) -> None:
    """FileFormatError unless the folder has the two files that a run needs; it says what to do where one is there."""
    config, database = (folder / CONFIG).is_file(), (folder / DATABASE).is_file()
    if not config and not database:
        raise FileFormatError(f"{folder} is not the folder of a run: it has no {CONFIG} and no {DATABASE}")
    if not config:
        raise FileFormatError(
            f"{folder} has the rollouts of a run, {DATABASE}, but no {CONFIG}, which says what they are about. Put the "
            f"{CONFIG} of a backup in its place: it is written once, so that any backup of this run has the right one. "
            f"Without one, make a run with the same words and seed in another folder, and copy its {CONFIG} here: the "
            "learner learns again from the rollouts"
        )
    if not database:
        raise FileFormatError(
            f"{folder} has the {CONFIG} of a run, but no {DATABASE}, which holds its rollouts. Restore it from a "
            f"backup, with {DATABASE}-wal where that was copied beside it; or make a new run with the same words"
        )


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder. One with something in it is left alone; with `overwrite`, a run's files are removed."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a run needs a folder")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            if not overwrite:
                known = "a run" if (folder / CONFIG).exists() else "something else"
                raise InputError(
                    f"{folder} has {known} in it; give a new or empty folder, or go on with a run that is there "
                    "(resume, or ask and tell). To overwrite it: hpsde run --force, or overwrite=True"
                )
            with RunLock(folder / LOCK).hold("overwrite"):
                for name in FILES:
                    (folder / name).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
