"""What an experiment runs, and the claims it tests. A new one is an entry in EXPERIMENTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hpsde.errors import InputError, UnknownNameError
from hpsde.learners.hpsde import HPSDE
from hpsde.methods import METHODS

DEFAULT = "hpsde-reps-gp"
FIRST_SEED = 100
"""Seeds 0 to 19 had a part in the choice of the defaults; these had none."""


@dataclass(frozen=True)
class Variant:
    """A method, with settings changed by name."""

    name: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """One run: a variant learns a task from one seed.

    rollouts: in all; None takes the task's own number.
    every: rollouts from one row to the next, the initial ones apart; None gives a row to every iteration.
    """

    task: str
    variant: Variant
    seed: int
    rollouts: int | None = None
    every: int | None = None

    @property
    def name(self) -> str:
        """A name for its file."""
        return f"{self.task}--{self.variant.name}--{self.seed}"


Pair = tuple[str, str | float]
"""A variant, and what it is compared with: another variant, or a number."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: on every task, the first of each pair lies on one side of the second.

    `side` is +1 where the first should have more of the quantity, -1 where it should have less, 0 where both should
    be equal within the margin. The first quantity and `pairs` decide; `reported` quantities and pairs do not.
    """

    name: str
    text: str
    quantity: str
    side: int
    pairs: tuple[Pair, ...]
    reported_quantities: tuple[str, ...] = ()
    reported_pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Tasks x variants x seeds.

    best: task -> the best return there is, which scales the margin of equality.
    margin: within how much returns count as equal, where it is not that share.
    extra_tasks: tasks that no claim is about, learned by `extra_variants` alone.
    ablations: the default with one setting changed, on the tasks of the claims.
    seconds: of one core for one run, on average; what `hpsde reproduce --list` reckons with.
    rollouts, every: of each run, as there.
    page: the template of the report, beside report.py.
    columns: of the table of methods; names in report.py.
    panels: of the figure of the learning curves; names in figures.py.
    drawn: the variants whose first run is drawn.
    """

    name: str
    description: str
    tasks: tuple[str, ...]
    best: Mapping[str, float]
    variants: tuple[Variant, ...]
    claims: tuple[Claim, ...]
    page: str
    seconds: float
    columns: tuple[str, ...]
    panels: tuple[str, ...]
    drawn: tuple[str, ...] = (DEFAULT,)
    extra_tasks: tuple[str, ...] = ()
    extra_variants: tuple[str, ...] = ()
    ablations: tuple[Variant, ...] = ()
    seeds: int = 20
    first_seed: int = FIRST_SEED
    rollouts: int | None = None
    every: int | None = None
    margin: float | None = None

    @property
    def own_variants(self) -> tuple[str, ...]:
        """The variants that are HPSDE, baselines left out."""
        every = self.variants + self.ablations
        return tuple(each.name for each in every if METHODS[each.method].learner is HPSDE)

    def variants_of(self, task: str) -> tuple[Variant, ...]:
        """The variants that learn the task."""
        if task in self.tasks:
            return self.variants + self.ablations
        return tuple(variant for variant in self.variants if variant.name in self.extra_variants)

    def runs(
        self, seeds: int | None = None, tasks: tuple[str, ...] = (), variants: tuple[str, ...] = ()
    ) -> list[PlannedRun]:
        """All runs, or those of some tasks and variants; runs that compile the same functions lie side by side."""
        everything = self.tasks + self.extra_tasks
        _check_names("task", tasks, everything)
        _check_names("variant", variants, tuple(each.name for each in self.variants + self.ablations))
        count = self.seeds if seeds is None else seeds
        if count < 1:
            raise InputError(f"seeds must be at least 1; got {count}")
        return [
            PlannedRun(task, variant, seed, self.rollouts, self.every)
            for task in everything
            if not tasks or task in tasks
            for variant in self.variants_of(task)
            if not variants or variant.name in variants
            for seed in range(self.first_seed, self.first_seed + count)
        ]


def _check_names(kind: str, names: tuple[str, ...], valid: tuple[str, ...]) -> None:
    for name in names:
        if name not in valid:
            raise UnknownNameError(kind, name, valid)


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; an unknown name is an error that lists the known ones."""
    known = all_experiments()
    if name not in known:
        raise UnknownNameError("experiment", name, known)
    return known[name]


def all_experiments() -> dict[str, Experiment]:
    """Those of the paper, and others."""
    return EXPERIMENTS | OTHERS


ABLATIONS: dict[str, dict[str, Any]] = {
    "own-behaviour": {"behaviour": "own"},
    "weights-sum-to-1": {"density": "vb", "weight_sum": "one"},
    "weights-sum-to-n": {"density": "vb", "weight_sum": "n"},
    "weights-sum-to-ess": {"density": "vb", "weight_sum": "ess"},
    "lambda-1": {"flattening": 1.0},
    "ml-em": {"density": "em"},
    "eigenmaps": {"density": "vb", "embedding_dimensions": 2},
}

TOYS = Experiment(
    name="toys",
    description="the toy problems of the paper; toy-curve is not in the paper",
    tasks=("toy-double", "toy-triple"),
    best={"toy-double": 1.0, "toy-triple": 100.0, "toy-curve": 1.0},
    variants=tuple(Variant(name, name) for name in METHODS),
    extra_tasks=("toy-curve",),
    extra_variants=(DEFAULT, "hpsde-reps-softmax", "hireps", "creps"),
    ablations=tuple(Variant(name, DEFAULT, changes) for name, changes in ABLATIONS.items()),
    claims=(
        Claim(
            "C1",
            "HPSDE reaches higher returns than HiREPS",
            "final return",
            +1,
            ((DEFAULT, "hireps"),),
            reported_quantities=("mean return",),
            reported_pairs=(("hpsde-rwr-gp", "hireps"), ("paper", "hireps")),
        ),
        Claim(
            "C2",
            "HPSDE settles on the number of options in fewer rollouts than HiREPS",
            "rollouts to settle",
            -1,
            ((DEFAULT, "hireps"),),
            reported_quantities=("options",),
        ),
        Claim(
            "C3",
            "the GP gate beats the softmax gate",
            "final return",
            +1,
            ((DEFAULT, "hpsde-reps-softmax"), ("hpsde-rwr-gp", "hpsde-rwr-softmax")),
            reported_quantities=("mean return",),
        ),
        Claim(
            "C4",
            "RWR and REPS learn comparably inside HPSDE",
            "mean return",
            0,
            (("hpsde-rwr-gp", DEFAULT), ("hpsde-rwr-softmax", "hpsde-reps-softmax")),
            reported_quantities=("final return",),
        ),
    ),
    page="toys.md",
    seconds=6.0,
    columns=(
        "final return",
        "worst",
        "mean return",
        "options",
        "rollouts to settle",
        "solved",
        "learner seconds",
    ),
    panels=("return", "lacking", "options"),
)

PUDDLE = Experiment(
    name="puddle",
    description="the puddle world of the paper: routes past puddles",
    tasks=("puddle",),
    best={"puddle": -7.15},
    variants=tuple(Variant(name, name) for name in METHODS),
    claims=(
        Claim(
            "C5a",
            "HPSDE reaches higher returns than HiREPS",
            "final return",
            +1,
            ((DEFAULT, "hireps"),),
            reported_quantities=("mean return", "best option's return"),
            reported_pairs=(("hpsde-rwr-gp", "hireps"), ("paper", "hireps")),
        ),
        Claim(
            "C5b",
            "HiREPS falls into local optima: more of its routes touch a puddle",
            "collision-free",
            -1,
            (("hireps", DEFAULT),),
            reported_quantities=("gaps",),
        ),
        Claim("C5c", "HPSDE finds several routes: options through more than one gap", "gaps", +1, ((DEFAULT, 1.0),)),
    ),
    page="puddle.md",
    seconds=30.0,
    columns=(
        "final return",
        "worst",
        "mean return",
        "best option's return",
        "collision-free",
        "gaps",
        "options",
        "learner seconds",
    ),
    panels=("lacking", "collision-free", "gaps", "options"),
    drawn=(DEFAULT, "hireps"),
)

REACH = Experiment(
    name="reach",
    description="the redundant arm of the paper: postures round a pole",
    tasks=("reach",),
    best={"reach": 0.0},
    variants=tuple(Variant(name, name) for name in METHODS),
    claims=(
        Claim(
            "C6a",
            "HPSDE with REPS and the GP gate reaches the highest returns",
            "final return",
            +1,
            tuple((DEFAULT, other) for other in ("hpsde-rwr-gp", "hpsde-reps-softmax", "hpsde-rwr-softmax", "hireps")),
            reported_quantities=("mean return", "success"),
            reported_pairs=tuple((DEFAULT, other) for other in ("hpsde-reps-marginal", "paper", "creps")),
        ),
        Claim(
            "C6b",
            "HPSDE finds several postures: options of more than one posture family",
            "families",
            +1,
            ((DEFAULT, 1.0),),
            reported_quantities=("both sides",),
        ),
    ),
    page="reach.md",
    seconds=80.0,
    columns=(
        "final return",
        "worst",
        "success",
        "strict success",
        "both sides",
        "families",
        "options",
        "learner seconds",
    ),
    panels=("lacking", "success", "strict success", "both sides", "families", "options"),
    every=500,
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (TOYS, PUDDLE, REACH)}

SEEN = {"encoder": "pictures", "features": "squared-exponential"}  # the features that the puddle task asks for
IMAGE = Experiment(
    name="image",
    description="the puddle world seen in pictures; not in the paper",
    tasks=("puddle-image-32",),
    best={"puddle-image-32": PUDDLE.best["puddle"]},
    variants=(
        Variant("encoder", DEFAULT, SEEN),
        Variant("true-context", DEFAULT, SEEN | {"encoder": "true-context"}),
        Variant("components", DEFAULT, {"encoder": "components-10"}),
        Variant("pixels", DEFAULT, {"encoder": "pixels-8"}),
        Variant("hireps", "hireps", SEEN),
        Variant("creps", "creps", SEEN),
    ),
    claims=(
        Claim(
            "I1",
            "what the encoder sees is as good as the true context",
            "final return",
            0,
            (("encoder", "true-context"),),
            reported_quantities=("mean return", "collision-free"),
        ),
        Claim(
            "I2",
            "it is better than pixels and than principal components",
            "final return",
            +1,
            (("encoder", "pixels"), ("encoder", "components")),
            reported_quantities=("gaps",),
        ),
        Claim("I3", "options through more than three gaps are found", "gaps", +1, (("encoder", 3.0),)),
        Claim(
            "I4",
            "HPSDE is better than HiREPS and contextual REPS on the same numbers",
            "final return",
            +1,
            (("encoder", "hireps"), ("encoder", "creps")),
            reported_quantities=("collision-free",),
        ),
    ),
    page="image.md",
    seconds=40.0,
    columns=PUDDLE.columns,
    panels=PUDDLE.panels,
    drawn=(),
    seeds=10,
    rollouts=1500,
    every=50,
    margin=0.05 * 7.4,
)
OTHERS: dict[str, Experiment] = {IMAGE.name: IMAGE}
"""Experiments that are not in the paper, and not among `hpsde reproduce all`."""
PAPER_TASKS = TOYS.tasks + PUDDLE.tasks + REACH.tasks
"""The tasks that the paper learns: no setting may differ between them, but for what a task gives (claim C7)."""
