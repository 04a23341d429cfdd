"""The folder of compiled programs that is kept between two runs of the tests."""

import shutil
import zlib
from pathlib import Path

MOST_BYTES = 1_000_000_000


def usable(folder: Path) -> Path:
    """The folder, made where it is not there, without what JAX could not read; empty where it has become large.

    JAX writes a program into its file in place. A process that is killed meanwhile, as some tests do, leaves a part of
    it, and whoever reads that warns; a warning is an error in the tests.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [file for file in folder.iterdir() if file.is_file()]
    if sum(file.stat().st_size for file in files) > MOST_BYTES:
        shutil.rmtree(folder)
        folder.mkdir()
        return folder
    for file in files:
        if not is_whole(file):
            file.unlink(missing_ok=True)
    return folder


def is_whole(file: Path) -> bool:
    """Whether the file is one complete zlib stream. JAX writes these where it has no zstandard; others are not kept."""
    stream = zlib.decompressobj()
    try:
        stream.decompress(file.read_bytes())
    except zlib.error:
        return False
    return stream.eof
