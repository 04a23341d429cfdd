"""A policy in a few lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hpsde.policy.hierarchical import HierarchicalPolicy, Option

MOST_CONTEXTS = 500
MOST_NUMBERS = 4


class OptionSummary(NamedTuple):
    """An option where it is chosen or, if it never is, anywhere.

    rules [C]: whether it is chosen, of all contexts that were looked at. contexts [N, S], means [N, D]: those where
    it is, and its parameters there. expected, deviation: the means of its expected return and standard deviation.
    """

    option: Option
    rules: np.ndarray
    contexts: np.ndarray
    means: np.ndarray
    expected: float
    deviation: float


def option_summaries(policy: HierarchicalPolicy) -> list[OptionSummary]:
    """Every option in the contexts of the rollouts, or in some of them where these are many."""
    policy = policy.of_encoded
    contexts = policy.known_contexts if policy.context_size else np.zeros((1, 0))
    if len(contexts) > MOST_CONTEXTS:
        contexts = contexts[np.linspace(0, len(contexts) - 1, MOST_CONTEXTS).astype(int)]
    chosen, expected = policy.choose(contexts), policy.expected_returns(contexts)
    means, deviations = policy.option_means(contexts), policy.expected_deviations(contexts)
    summaries = []
    for option in policy.options:
        o, rules = option.index, chosen == option.index
        where = rules if rules.any() else np.ones_like(rules)
        returns = float(expected[o, where].mean()), float(deviations[o, where].mean())
        summaries.append(OptionSummary(option, rules, contexts[where], means[o, where], *returns))
    return summaries


def summarise(policy: HierarchicalPolicy) -> str:
    """The options, the contexts where each is chosen, its parameters there, the return to expect, and doubts.

    Beside the return that the model expects stands what the option's own rollouts have earned.
    """
    summaries = option_summaries(policy)
    count, used = len(summaries), sum(bool(each.rules.any()) for each in summaries)
    lines = [
        f"{count} option{'s' if count != 1 else ''}, {used} in use, gate: {policy.gate_kind}; learned from "
        f"{len(policy.known_contexts)} rollouts"
    ]
    for each in summaries:
        lines += _describe(each)
    if policy.doubts:
        lines += ["Doubts:", *(f"  {doubt.kind}: {' '.join(doubt.text.split())}" for doubt in policy.doubts)]
    return "\n".join(lines)


def _describe(summary: OptionSummary) -> list[str]:
    """Three lines: where the option rules, and its parameters and return there or, failing that, anywhere."""
    option, rules = summary.option, summary.rules
    deviation = np.sqrt(np.diagonal(option.covariance))
    elsewhere = "" if rules.any() else " where it is not chosen"
    return [
        f"  option {option.number}: {_territory(rules, summary.contexts)}",
        f"    parameters {_ranges(summary.means, 'xi')}, deviation {_numbers(deviation)}",
        f"    expected return {_returns(option, summary.expected, summary.deviation, elsewhere)}",
    ]


def _returns(option: Option, expected: float, deviation: float, where: str) -> str:
    """'0.98 +- 0.02, measured 0.96 (mean of its newest 20 rollouts)': expected `where`, and earned by the option."""
    text = f"{expected:.6g}" if np.isnan(deviation) else f"{expected:.4g} +- {deviation:.2g}"
    if option.measured_return is None:
        return text + where
    rollouts = f"newest {option.measured_rollouts} rollouts" if option.measured_rollouts > 1 else "one rollout"
    return f"{text}{where}, measured {option.measured_return:.4g} (mean of its {rollouts})"


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
