"""The policies of past learning steps in one file, thinned as it grows, so that the learning can be replayed.

The file is a cache: a run learns the same without it. It is a row of records: step, length, checksum, and a policy
file (docs/policy_file.md). A record is appended in one write; what a kill leaves unfinished at the end is cut off by
the next one.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hpsde.base.plain_files import open_plain
from hpsde.base.replacing import replaced
from hpsde.errors import FileFormatError

LARGEST_BYTES = 20_000_000
HEAD = struct.Struct("<4sIQI")
MARK = b"hpp1"


class Record(NamedTuple):
    """The policy of a learning step: where its bytes begin in the file, and how many there are."""

    step: int
    start: int
    size: int
    checksum: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.start + self.size


class PastPolicies:
    """Keeps at most LARGEST_BYTES of policies. Writing needs the run's lock."""

    def __init__(self, path: Path):
        self.path = path

    def steps(self) -> list[int]:
        """The learning steps whose policies are kept, in their order."""
        return [record.step for record in self._records()]

    def read(self, step: int) -> bytes | None:
        """The policy file of the newest kept step that is not after `step`; None where there is none."""
        before = [record for record in self._records() if record.step <= step]
        return self._content(before[-1]) if before else None

    def keep(self, step: int, content: bytes) -> None:
        """Add a policy; those of this step and of later ones no longer hold. What cannot be written is left out."""
        with suppress(OSError, FileFormatError):
            self.forget(step)
            if len(content) + HEAD.size > LARGEST_BYTES // 2:
                return
            records = self._records()
            end = records[-1].end if records else 0
            if end + HEAD.size + len(content) > LARGEST_BYTES:
                self._write(thinned(records, LARGEST_BYTES // 2))
                end = self.path.stat().st_size
            with open(open_plain(self.path, os.O_RDWR | os.O_CREAT), "r+b") as file:
                file.truncate(end)
                file.seek(end)
                file.write(HEAD.pack(MARK, step, len(content), zlib.crc32(content)) + content)

    def forget(self, first: int) -> None:
        """Policies from learning step `first` on no longer hold."""
        records = self._records()
        if records and records[-1].step >= first:
            self._write([record for record in records if record.step < first])

    def _records(self) -> list[Record]:
        """What is whole, by the heads alone; steps increase."""
        found: list[Record] = []
        try:
            with open(open_plain(self.path), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                while len(head := file.read(HEAD.size)) == HEAD.size:
                    mark, step, length, checksum = HEAD.unpack(head)
                    record = Record(step, file.tell(), length, checksum)
                    if mark != MARK or record.end > size or (found and step <= found[-1].step):
                        break
                    found.append(record)
                    file.seek(record.end)
        except OSError:
            return []
        return found

    def _content(self, record: Record) -> bytes:
        with open(open_plain(self.path), "rb") as file:
            file.seek(record.start)
            content = file.read(record.size)
        if zlib.crc32(content) != record.checksum:
            raise FileFormatError(f"{self.path} is damaged; remove it: only the replay of past learning steps needs it")
        return content

    def _write(self, records: Sequence[Record]) -> None:
        """The file with these records alone."""
        with replaced(self.path) as unfinished, unfinished.open("wb") as file:
            for record in records:
                content = self._content(record)
                file.write(HEAD.pack(MARK, record.step, record.size, record.checksum) + content)


def thinned(records: Sequence[Record], most: int) -> list[Record]:
    """Records of at most so many bytes: those go whose neighbours are nearest to each other; first and last stay."""
    kept = list(records)
    total = sum(HEAD.size + record.size for record in kept)
    while total > most and len(kept) > 2:
        gone = min(range(1, len(kept) - 1), key=lambda i: (kept[i + 1].step - kept[i - 1].step, i))
        total -= HEAD.size + kept.pop(gone).size
    return kept
