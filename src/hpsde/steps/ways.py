"""Ways round a valley: whether rollouts lead from one hill to another one without going down.

A rollout half-way between two tops says that there is a valley on the straight way. Where the best parameters lie along
a curve there is none on the way along it. So two hills are one where a chain of rollouts leads from top to top, all of
them as high as the lower top but for the depth of a valley, each within the distance between neighbouring rollouts
of the next one; and where local models (climbing.py) say the same of the places half-way between those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpsde.base.later import Later

spatial = Later("scipy.spatial")
sparse = Later("scipy.sparse")
csgraph = Later("scipy.sparse.csgraph")

DENIED = 30  # links of chains that a model may deny before there is no chain


def leads(x: np.ndarray, start: int, end: int, hop: float, is_high: Callable[[np.ndarray], bool]) -> bool:
    """Whether a chain of the places x [N, D] leads from one row to another in hops no longer than `hop`, half-way along
    each of which `is_high`. The shortest chain is tried first.
    """
    pairs = spatial.KDTree(x).query_pairs(hop, output_type="ndarray")
    lengths = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)

    @functools.cache
    def holds(link: tuple[int, int]) -> bool:
        return is_high(0.5 * (x[link[0]] + x[link[1]]))

    for _ in range(DENIED):
        chain = _shortest(len(x), pairs, lengths, start, end)
        if chain is None:
            return False
        denied = next((link for link in chain if not holds(link)), None)
        if denied is None:
            return True
        left = np.any(pairs != denied, axis=1)
        pairs, lengths = pairs[left], lengths[left]
    return False


def _shortest(count: int, pairs: np.ndarray, lengths: np.ndarray, start: int, end: int) -> list[tuple[int, int]] | None:
    """The links of the shortest chain, each with its smaller number first; None: there is none."""
    graph: Any = sparse.csr_array((np.maximum(lengths, 1e-300), pairs.T), shape=(count, count))
    distance, before = csgraph.dijkstra(graph, directed=False, indices=start, return_predecessors=True)
    if not np.isfinite(distance[end]):
        return None
    links, at = [], end
    while at != start:
        links.append((min(at, int(before[at])), max(at, int(before[at]))))
        at = int(before[at])
    return links
