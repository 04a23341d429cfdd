"""What a policy says of one context, as commands print it and servers send it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.policy.summary import option_summaries


def answers(policy: HierarchicalPolicy, contexts: np.ndarray) -> list[dict[str, Any]]:
    """For each of the contexts [C, S] the gate's choice, its parameters, and what every option would do there.

    Of every option: the return that the model expects in this context, its standard deviation, and the mean return of
    the newest rollouts that it has made, in whatever context.
    """
    means, values = policy.option_means(contexts), policy.expected_returns(contexts)
    deviations, chosen = policy.expected_deviations(contexts), policy.choose(contexts)
    known = policy.options
    return [
        {
            "context": contexts[c],
            "option": int(chosen[c]),
            "number": known[chosen[c]].number,
            "parameters": means[chosen[c], c],
            "options": [
                {
                    "number": option.number,
                    "parameters": means[option.index, c],
                    "expected_return": values[option.index, c],
                    "expected_deviation": deviations[option.index, c],
                    "measured_return": option.measured_return,
                    "measured_rollouts": option.measured_rollouts,
                }
                for option in known
            ],
        }
        for c in range(len(contexts))
    ]


def option_entries(policy: HierarchicalPolicy) -> list[dict[str, Any]]:
    """Every option in the contexts of the rollouts: where it rules, what it does there, what return to expect.

    share: of the contexts, that in which it is chosen. low, high [S]: between what they lie there. parameters [D]: the
    mean of its parameters there, deviations [D] by how much it explores around them.
    """
    return [
        {
            "number": each.option.number,
            "share": float(each.rules.mean()),
            "low": each.contexts.min(axis=0),
            "high": each.contexts.max(axis=0),
            "parameters": each.means.mean(axis=0),
            "deviations": np.sqrt(np.diagonal(each.option.covariance)),
            "expected_return": each.expected,
            "expected_deviation": each.deviation,
            "measured_return": each.option.measured_return,
            "measured_rollouts": each.option.measured_rollouts,
        }
        for each in option_summaries(policy)
    ]
