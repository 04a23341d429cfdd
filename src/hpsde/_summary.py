"""A policy in a few lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hpsde.policy import HierarchicalPolicy, Option

MOST_CONTEXTS = 500
MOST_NUMBERS = 4


def summarise(policy: HierarchicalPolicy) -> str:
    """The options, the contexts where each is chosen, its parameters there, the return to expect, and doubts."""
    contexts = policy.known_contexts if policy.context_size else np.zeros((1, 0))
    if len(contexts) > MOST_CONTEXTS:
        contexts = contexts[np.linspace(0, len(contexts) - 1, MOST_CONTEXTS).astype(int)]
    chosen, expected = policy.choose(contexts), policy.expected_returns(contexts)
    means = policy.option_means(contexts)
    count, used = len(policy.options), len(np.unique(chosen))
    lines = [f"{count} option{'s' if count != 1 else ''}, {used} in use, gate: {policy.gate.kind}"]
    for option in policy.options:
        rules = chosen == option.index
        where = rules if rules.any() else np.ones_like(rules)
        lines += _describe(option, rules, contexts[where], means[option.index, where], expected[option.index, where])
    if policy.doubts:
        lines += ["Doubts:", *(f"  {doubt.kind}: {' '.join(doubt.text.split())}" for doubt in policy.doubts)]
    return "\n".join(lines)


def _describe(
    option: Option, rules: np.ndarray, contexts: np.ndarray, means: np.ndarray, expected: np.ndarray
) -> list[str]:
    """Three lines: where the option rules, and its parameters and return there or, failing that, anywhere."""
    deviation = np.sqrt(np.diagonal(option.covariance))
    elsewhere = "" if rules.any() else " where it is not chosen"
    return [
        f"  option {option.number}: {_territory(rules, contexts)}",
        f"    parameters {_ranges(means, 'xi')}, deviation {_numbers(deviation)}",
        f"    expected return {expected.mean():.6g}{elsewhere}",
    ]


def _territory(rules: np.ndarray, contexts: np.ndarray) -> str:
    if contexts.shape[1] == 0:
        return "the best" if rules.any() else "not the best"
    if not rules.any():
        return "never the best"
    return f"best in {100 * rules.mean():.0f} % of the contexts, {_ranges(contexts, 's')}"


def _ranges(values: np.ndarray, name: str) -> str:
    """'xi1 0.1 to 0.3, xi2 5': the lowest and highest value in each column, of the first few."""
    low, high = values.min(axis=0), values.max(axis=0)
    parts = []
    for j in range(min(len(low), MOST_NUMBERS)):
        label = f"{name}{j + 1}" if len(low) > 1 else name
        first, last = f"{low[j]:.4g}", f"{high[j]:.4g}"
        parts.append(f"{label} {first}" if first == last else f"{label} {first} to {last}")
    return ", ".join(parts) + (", ..." if len(low) > MOST_NUMBERS else "")


def _numbers(values: np.ndarray) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:MOST_NUMBERS])
    return shown + (", ..." if len(values) > MOST_NUMBERS else "")
