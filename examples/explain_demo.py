"""Say in words what the demo's run found: python examples/explain_demo.py FOLDER FIGURE."""

import json
import sys
from pathlib import Path

import jax
import numpy as np

import hpsde

TASK = """
The task 'toy-triple': for a context s, choose a parameter ξ, get a return.
Three lines of parameters are the best, each for its own contexts. The learner
was told nothing of that: not how many lines there are, nor where.
"""

FIGURE = """
What the figure {figure} shows:
  top left    the return of every parameter in every context, which the learner never sees
  top middle  its rollouts, coloured by option: pale from the blind start, strong from learning
  top right   the options it found: thick where the policy prefers one, thin elsewhere
  bottom      the return, and when each option was born or died, as rollouts come in
"""


def ruling_intervals(contexts: np.ndarray, rules: np.ndarray) -> str:
    """The contexts [C] where `rules` [C] is true, as text: '0.00 to 0.69, 1.40 to 2.00'."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rules.astype(int), [0]]))).reshape(-1, 2)
    return ", ".join(f"{contexts[start]:.2f} to {contexts[end - 1]:.2f}" for start, end in edges)


def blind_return(task: hpsde.tasks.Task, count: int = 100_000) -> float:
    """The mean return of the policy that learning started from."""
    key_contexts, key_parameters = jax.random.split(jax.random.key(0))
    contexts = task.sample_contexts(key_contexts, count)
    returns = task.evaluate(contexts, task.sample_initial(key_parameters, contexts))
    return float(np.asarray(returns).mean())


def explain(folder: Path, figure: str) -> None:
    """Print what the run in `folder` found."""
    policy = hpsde.load_policy(folder / "policy.npz")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    task = hpsde.tasks.make_task("toy-triple")
    contexts = np.asarray(task.evaluation_contexts())
    means, chosen = policy.option_means(contexts)[:, :, 0], policy.choose(contexts)

    print(TASK)
    print(f"What it found in {result['rollouts']} rollouts: {len(means)} options.")
    for option, mean in zip(policy.options, means, strict=True):
        where = ruling_intervals(contexts[:, 0], chosen == option.index)
        line = f"  option {option.number}: ξ from {mean[0]:.2f} at s = 0 to {mean[-1]:.2f} at s = 2"
        print(line + (f"; rules where s is {where}" if where else "; never used"))
    for doubt in policy.doubts:
        print(f"Doubt: {doubt}")
    print(f"Mean return of the learned policy: {result['greedy_mean_return']:.4f}")
    print(f"The best possible is 100; parameters drawn blindly get {blind_return(task):.2f}.")
    print(FIGURE.format(figure=figure))


if __name__ == "__main__":
    explain(Path(sys.argv[1]), sys.argv[2])
