"""Files that are opened as themselves: through no link, and never a pipe or a device that would be waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from hpsde.errors import FileFormatError

_NO_LINKS, _NO_WAITING = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
_BYTES = getattr(os, "O_BINARY", 0)


def open_plain(path: Path, flags: int = os.O_RDONLY, *, links: bool = False) -> int:
    """A descriptor of the plain file `path`, which programs that this one starts do not inherit.

    FileFormatError where it is something else; that it is a folder, or not there, is an OSError, as usual.

    links: whether the path may be a link to the file, as one that the user has named may.
    """
    try:
        descriptor = os.open(path, flags | _NO_WAITING | _BYTES | (0 if links else _NO_LINKS), 0o666)
    except OSError as error:
        # A link that is not followed, a pipe that nobody reads, a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK):
            raise _not_plain(path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _not_plain(path)


def check_plain(path: Path) -> None:
    """FileFormatError where there is something of that name that is no plain file."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _not_plain(path)
    except (FileNotFoundError, NotADirectoryError):
        pass


def same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether both are of the same file, and not of two that have had the same name."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _not_plain(path: Path) -> FileFormatError:
    return FileFormatError(f"{path}: expected a plain file, got a link, a pipe, a folder or a device; remove it")
