"""The file of a run's encoder. It is written once: all learning steps, also of resumed runs, encode with the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.archive import read_arrays, write_arrays
from hpsde.errors import FileFormatError, HpsdeError, InputError
from hpsde.policy.file import restored_encoder
from hpsde.runs.config import RunConfig
from hpsde.steps.encoders import Encoder, OwnEncoder

FORMAT, VERSION = "hpsde-encoder", 1


def save_encoder(encoder: Encoder | None, path: Path, run: str) -> None:
    """Write it, where there is one; of a function of the user's own only what it is for."""
    if encoder is None:
        return
    header = _header(encoder.kind, run) | {"size": encoder.size}
    write_arrays(path, {"header": np.array(json.dumps(header)), **encoder.arrays()})


def check_encoder(encoder: Encoder | None) -> None:
    """An InputError where what would be written of it could not be read again."""
    if encoder is None:
        return
    try:
        restored_encoder(encoder.kind, encoder.arrays(), getattr(encoder, "function", None), encoder.size)
    except ValueError as error:
        raise InputError(f"the encoder cannot be stored: {error}") from error


def _header(kind: str, run: str) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "kind": kind, "run": run}


def load_encoder(path: Path, config: RunConfig, given: Any) -> Encoder | None:
    """The encoder of the run with this configuration; `given`: the user's own function, where there is one."""
    own = config.encoder == OwnEncoder.kind
    if given is not None and not own:
        raise InputError(f"this run has {'its own' if config.encoder else 'no'} encoder and takes no other")
    if own and given is None:
        raise InputError(
            "this run was made with an encoder of your own, which is not stored; give it again: "
            "Run.open(folder, encoder=function)"
        )
    if not config.encoder:
        return None
    try:
        arrays = read_arrays(path, "an encoder")
        header = json.loads(str(arrays.pop("header")))
        size = header.pop("size")
        if header != _header(config.encoder, config.run):
            raise ValueError("its header is not that of this run's encoder")
        encoder = restored_encoder(config.encoder, arrays, given, size)
        if encoder.size != size:
            raise ValueError(f"its encoder gives {encoder.size} numbers and not {size}")
        return encoder
    except FileNotFoundError:
        raise FileFormatError(
            f"{path} is missing: without it the run's contexts cannot be read. Put that of a backup in its place; it "
            "is written once, so that any backup of this run has the right one"
        ) from None
    except HpsdeError:
        raise
    except (AttributeError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error
