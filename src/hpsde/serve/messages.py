"""What clients send and get, as OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MOST_ROLLOUTS = 10_000
"""Of one request."""
LONGEST_TEXT = 10_000
LARGEST_ID = 2**53

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Id = Annotated[int, Field(strict=True, ge=1, le=LARGEST_ID)]
Text = Annotated[str, Field(strict=True, max_length=LONGEST_TEXT)]
Numbers = Annotated[list[Number], Field(max_length=10_000)]


class Message(BaseModel):
    """Nothing is taken that has no meaning: a misspelt name is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class AskRequest(Message):
    """Rollouts to run: one for each context, or, where the run has no contexts, `count` of them."""

    contexts: Annotated[list[Numbers], Field(min_length=1, max_length=MOST_ROLLOUTS)] | None = None
    count: Annotated[int, Field(strict=True, ge=1, le=MOST_ROLLOUTS)] | None = None


class Rollout(BaseModel):
    """A rollout to be run. `option` is -1, and `number` 0, where it comes from the initial policy."""

    id: int
    context: list[float]
    parameters: list[float]
    option: int
    number: int
    log_density: float | None
    seed: int


class AskAnswer(BaseModel):
    """Rollouts to be run; they are on disk."""

    rollouts: list[Rollout]


class ToldRollout(Message):
    """What came of a rollout: its return, or why it failed; and what was run where not what was asked."""

    id: Id
    value: Annotated[Number | None, Field(alias="return")] = None
    failed: Text | None = None
    parameters: Numbers | None = None


class TellRequest(ToldRollout):
    """One rollout; or, in `rollouts`, several, all of which are taken or none."""

    id: Id | None = None  # type: ignore[assignment]
    rollouts: Annotated[list[ToldRollout], Field(min_length=1, max_length=MOST_ROLLOUTS)] | None = None


class TellAnswer(BaseModel):
    """The rollouts that were told now, those that had been told so before, and warnings of returns far outside all
    others. All of it is on disk.
    """

    told: list[int]
    again: list[int]
    warnings: list[str]


class CorrectRequest(Message):
    """Another outcome of a rollout that was told: a return, why it failed, or `drop`; one of the three."""

    id: Id
    value: Annotated[Number | None, Field(alias="return")] = None
    failed: Text | None = None
    drop: Annotated[bool, Field(strict=True)] = False
    reason: Text | None = None


class CorrectAnswer(BaseModel):
    """The rollout that was corrected; what had been learned from it has been learned anew."""

    corrected: int


class ActRequest(Message):
    """One context, or several; neither where the run has none."""

    context: Numbers | None = None
    contexts: Annotated[list[Numbers], Field(min_length=1, max_length=MOST_ROLLOUTS)] | None = None


class OptionThere(BaseModel):
    """What an option would do in a context, the return that the model expects with its standard deviation, and the mean
    return of the newest rollouts that it has made.
    """

    number: int
    parameters: list[float]
    expected_return: float | None
    expected_deviation: float | None
    measured_return: float | None
    measured_rollouts: int


class Act(BaseModel):
    """The best known parameters in a context, and what every option would do there."""

    context: list[float]
    option: int
    number: int
    parameters: list[float]
    options: list[OptionThere]


class Doubted(BaseModel):
    """A reason not to trust the policy."""

    kind: str
    value: float | None
    text: str


class ActAnswer(BaseModel):
    """One act for each context, and what the learner is not sure of."""

    acts: list[Act]
    doubts: list[Doubted]


class OptionsAnswer(BaseModel):
    """Every option: where it rules, what it does there, what return to expect and what its rollouts have earned."""

    options: list[dict[str, Any]]
    doubts: list[Doubted]


class OpenAnswer(BaseModel):
    """Rollouts that were asked for and not told yet."""

    rollouts: list[dict[str, Any]]


class Refusal(BaseModel):
    """What was expected and what came."""

    error: str
