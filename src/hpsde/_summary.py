"""A policy in a few lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hpsde.policy import HierarchicalPolicy

MOST_CONTEXTS = 500


def summarise(policy: HierarchicalPolicy) -> str:
    """The options, the contexts where each is chosen, its parameters there and the return to expect."""
    contexts = policy.known_contexts
    if len(contexts) > MOST_CONTEXTS:
        contexts = contexts[np.linspace(0, len(contexts) - 1, MOST_CONTEXTS).astype(int)]
    chosen, expected, means = (
        policy.choose(contexts),
        policy.expected_returns(contexts),
        policy.option_means(contexts),
    )
    used = len(np.unique(chosen))
    count = len(policy.options)
    lines = [f"{count} option{'s' if count != 1 else ''}, {used} in use, gate: {policy.gate.kind}"]
    for option in policy.options:
        rules = chosen == option.index
        where = contexts[rules] if rules.any() else contexts
        here = expected[option.index][rules] if rules.any() else expected[option.index]
        deviation = np.sqrt(np.diagonal(option.covariance))
        lines.append(f"  option {option.index}: {_territory(where, rules, policy.context_size)}")
        ranges = means[option.index][rules] if rules.any() else means[option.index]
        lines.append(f"    parameters {_ranges(ranges)}, deviation {_numbers(deviation)}")
        lines.append(f"    expected return {here.mean():.6g}" + ("" if rules.any() else " where it is not chosen"))
    return "\n".join(lines)


def _territory(where: np.ndarray, rules: np.ndarray, context_size: int) -> str:
    if not rules.any():
        return "never the best"
    share = f"best in {100 * rules.mean():.0f} % of the contexts"
    return share if context_size == 0 else f"{share}, {_ranges(where, 's')}"


def _ranges(values: np.ndarray, name: str = "xi", most: int = 4) -> str:
    low, high = values.min(axis=0), values.max(axis=0)
    several = len(low) > 1
    parts = [
        f"{name}{j + 1 if several else ''} {low[j]:.4g} to {high[j]:.4g}"
        if high[j] > low[j]
        else f"{name}{j + 1 if several else ''} {low[j]:.4g}"
        for j in range(min(len(low), most))
    ]
    return ", ".join(parts) + (", ..." if len(low) > most else "")


def _numbers(values: np.ndarray, most: int = 4) -> str:
    return ", ".join(f"{value:.3g}" for value in values[:most]) + (", ..." if len(values) > most else "")
