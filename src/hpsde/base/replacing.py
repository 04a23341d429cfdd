"""Files that are whole or absent, whoever else writes them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpsde.errors import InputError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A path of one's own to write to; takes the name `path` in one step when the block ends well, else is removed."""
    if not path.name:
        raise InputError(f"expected the name of a file to write, got {str(path)!r}")
    unfinished = path.with_name(f".unfinished-{secrets.token_hex(8)}-{path.name}")
    unfinished.touch(exist_ok=False)  # nobody else's, and no link
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
