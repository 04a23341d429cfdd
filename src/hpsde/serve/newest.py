"""The policy of a run's last learning step, read again when there is another."""

from __future__ import annotations

from pathlib import Path

from hpsde import load_policy
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.folder import POLICY, check_files


class NewestPolicy:
    """Keeps the policy that was read until the file is another."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._known: tuple[tuple[int, int, int], HierarchicalPolicy] | None = None

    def read(self) -> HierarchicalPolicy | None:
        """The policy, None where nothing has been learned yet."""
        path = self._folder / POLICY
        check_files(self._folder)
        if not path.is_file():
            return None
        about = path.stat()
        which = about.st_ino, about.st_mtime_ns, about.st_size
        if self._known is None or self._known[0] != which:
            self._known = which, load_policy(path)
        return self._known[1]
