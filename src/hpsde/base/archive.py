"""Plain arrays in one file: a zip archive that `numpy.load` reads too, read here so that it can do no harm.

numpy's own reader refuses pickled objects when told so. This one refuses more: compressed or encrypted
members, members that promise more bytes than the file has, arrays of anything but numbers, truth values and
text. So a file needs no more memory than its own size, and nothing in it is ever run.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from hpsde.base.plain_files import open_plain
from hpsde.base.replacing import replaced
from hpsde.errors import FileFormatError

NUMBERS, WHOLE_NUMBERS, TRUTH_VALUES, TEXT = "<f8", "<i8", "|b1", "U"


class Field(NamedTuple):
    """What an array of a file must be: its shape, as letters that stand for sizes, and its type."""

    shape: str
    dtype: str = NUMBERS


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays; the file appears whole or not at all, whoever else writes it. The same arrays give the same
    bytes.
    """
    with replaced(path) as unfinished, unfinished.open("wb") as file:
        _write(file, arrays)
        file.flush()
        os.fsync(file.fileno())


def _write(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # ZipInfo without a date means the same date every time.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def read_arrays(
    path: Path, what: str = "a policy file", *, links: bool = False, only: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """All arrays of the file, or FileFormatError. That there is no such file is an OSError, as usual.

    links: whether the path may be a link to the file. only: the names of those that are read.
    """
    with open(open_plain(path, links=links), "rb") as file:
        return read_stream(file, os.fstat(file.fileno()).st_size, f"{path} is not {what}", only)


def read_stream(file: Any, size: int, refusal: str, only: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The same of an open file of `size` bytes."""
    try:
        return _read(file, size, only)
    except Exception as error:  # whatever a parser says of broken bytes, the file is at fault
        raise FileFormatError(f"{refusal}, or is damaged: {error}") from error


def _read(file: Any, size: int, only: Collection[str] | None) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > size:
            raise ValueError("its members promise more bytes than it has")
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise ValueError("it has two members of the same name")
        for name, member in zip(names, members, strict=True):
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise ValueError(f"its member {name} is compressed or encrypted")
        wanted = [(name, each) for name, each in zip(names, members, strict=True) if only is None or name in only]
        return {name: _array(name, archive.read(member)) for name, member in wanted}


def _array(name: str, content: bytes) -> np.ndarray:
    """The array of one member in numpy's format 1.0: a short literal with type and shape, then the data."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"its member {name} is not in version 1.0 of numpy's array format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.str not in (NUMBERS, WHOLE_NUMBERS, TRUTH_VALUES) and dtype.kind != TEXT:
        raise ValueError(f"its member {name} holds {dtype}, not 64-bit numbers, truth values or text")
    data = content[stream.tell() :]
    if len(data) != dtype.itemsize * int(np.prod(shape, dtype=object)) or min(shape, default=1) < 0:
        raise ValueError(f"its member {name} has {len(data)} bytes, which are not {dtype} of shape {list(shape)}")
    array: Any = np.frombuffer(data, dtype=dtype) if data else np.zeros(0, dtype)
    return array.reshape(shape, order="F" if fortran_order else "C").copy()
