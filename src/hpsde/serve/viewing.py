"""The page of `hpsde view`: a server that shows runs, also while they go on, and corrects what was told."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import Field

from hpsde.errors import AskTellError, InputError
from hpsde.policy.answers import answers, option_entries
from hpsde.policy.file import policy_of_bytes
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.files import json_ready
from hpsde.runs.folder import PAST
from hpsde.runs.ledger import Ledger
from hpsde.runs.past import PastPolicies
from hpsde.serve.learner import LearnerProcess
from hpsde.serve.messages import CorrectRequest, Message, Numbers
from hpsde.serve.newest import NewestPolicy
from hpsde.serve.report import page
from hpsde.serve.run_data import drawn_task, pictures, run_data, scene_data
from hpsde.serve.service import add_errors
from hpsde.serve.telling import check_known

Result = TypeVar("Result")
LINE_POINTS, LIVE_POINTS = 81, 41
"""Contexts along which options are drawn on the map: of one context number, and of several, where every move of another
number draws them anew."""
MOST_SEEN = 16
"""Policies that are kept in memory while the learning is replayed."""
OWN_ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"
)
"""What a browser may load for the page: nothing from elsewhere."""
Place = Annotated[int, Field(strict=True, ge=0)]


class EvaluateRequest(Message):
    """A context of a run; the place of the context number to draw options along; and a learning step of the past."""

    run: Place
    context: Numbers
    axis: Place | None = None
    step: Annotated[int, Field(strict=True, ge=1, le=2**31)] | None = None


class CorrectionRequest(CorrectRequest):
    """A correction in a run."""

    run: Place


class Viewed(NamedTuple):
    """A policy that is looked at: the learning step it is of, None for the newest, and what a page shows of it."""

    step: int | None
    policy: HierarchicalPolicy
    entries: list[dict[str, Any]]
    scene: dict[str, Any] | None


class ViewedRun:
    """One run that is looked at. Its calls are made by one thread."""

    def __init__(self, folder: Path, trust: bool):
        self.ledger, self.newest = Ledger.open(folder), NewestPolicy(folder)
        self.task = drawn_task(self.ledger.config, trust)
        self.past, self.learner = PastPolicies(folder / PAST), LearnerProcess(folder, trust)
        self._seen: dict[int | None, Viewed] = {}
        self._text: tuple[tuple[str, bool], bytes] | None = None

    def mark(self) -> str:
        """Another text whenever something was asked, told, corrected or learned."""
        totals = self.ledger.store.totals()
        return f"{totals.rollouts}-{totals.done}-{totals.failed}-{totals.steps}-{totals.events}"

    def data(self) -> bytes:
        """All that the page shows at first, as JSON; made once for every state of the run."""
        writable = os.access(self.ledger.folder, os.W_OK) and not self.ledger.lock.running
        which = self.mark(), writable
        if self._text is None or self._text[0] != which:
            policy = self.newest.read()
            self._seen.clear()  # a correction learns past steps anew
            data = run_data(self.ledger, policy) | {"mark": which[0], "writable": writable}
            data["past"] = [] if policy is None else self.past.steps()
            data["first"] = None if policy is None else self.evaluate(data["start"], 0 if data["start"] else None)
            self._text = which, json.dumps(data, allow_nan=False).encode()
        return self._text[1]

    def seen(self, step: int | None) -> Viewed:
        """The newest policy, or the newest kept one that is not after a learning step."""
        kept = None if step is None else max((each for each in self.past.steps() if each <= step), default=None)
        policy = self.newest.read() if kept is None else None
        if kept is None and policy is None:
            raise AskTellError("nothing has been learned yet")
        known = self._seen.get(kept)
        if known is None or (kept is None and known.policy is not policy):
            known = self._look(kept, policy)
            while len(self._seen) >= MOST_SEEN:
                del self._seen[next(iter(self._seen))]
            self._seen[kept] = known
        return known

    def _look(self, step: int | None, policy: HierarchicalPolicy | None) -> Viewed:
        """What the page shows of a policy, and between what its pictures lie over the contexts that are known."""
        if policy is None:
            policy = policy_of_bytes(self.past.read(step or 0) or b"", f"{self.past.path}, learning step {step}")
        known = policy.known_contexts[:: max(len(policy.known_contexts) // 64, 1)]
        contexts = known if policy.context_size else np.zeros((1, 0))
        means = policy.of_encoded.option_means(contexts).transpose(1, 0, 2)
        # What is known of encoded contexts are their few numbers, in which a task draws nothing.
        drawing = None if policy.encoder is not None else pictures(self.task, contexts, means)
        return Viewed(step, policy, json_ready(option_entries(policy)), scene_data(drawing))

    def evaluate(self, context: Sequence[float], axis: int | None = None, step: int | None = None) -> dict[str, Any]:
        """The gate's choice in a context, every option there, its picture, and options along a context number."""
        seen, row = self.seen(step), self._row(context)
        found = json_ready(answers(seen.policy, row)[0])
        drawing = pictures(self.task, row, np.array([[option["parameters"] for option in found["options"]]]))
        if drawing is not None:
            for option, line, points in zip(
                found["options"], drawing.lines.tolist(), drawing.points.tolist(), strict=True
            ):
                option |= {"line": line, "points": points}
        return found | {
            "goal": None if drawing is None or drawing.goal is None else drawing.goal[0].tolist(),
            "line": None if axis is None else self._line(seen.policy, row, axis),
            "step": seen.step,
            "entries": None if seen.step is None else seen.entries,
            "scene": seen.scene,
        }

    def _line(self, policy: HierarchicalPolicy, row: np.ndarray, axis: int) -> dict[str, Any] | None:
        """Every option's parameters along one context number, and which is chosen."""
        if axis >= policy.context_size:
            raise InputError(f"axis: expected less than {policy.context_size}, got {axis}")
        if policy.encoder is not None:  # a picture with another value in one pixel is none
            return None
        known = policy.known_contexts
        count = LINE_POINTS if policy.context_size == 1 else LIVE_POINTS
        contexts = np.repeat(row, count, axis=0)
        contexts[:, axis] = np.linspace(known[:, axis].min(), known[:, axis].max(), count)
        means = policy.option_means(contexts).transpose(1, 0, 2)
        return {"xs": contexts[:, axis].tolist(), "means": means.tolist(), "chosen": policy.choose(contexts).tolist()}

    def rollout(self, number: int) -> dict[str, Any]:
        """What the page does not have of a rollout: why it failed."""
        check_known(self.ledger, [number])
        with self.ledger.store.reading() as connection:
            found = connection.execute("SELECT reason, told_at FROM rollouts WHERE id = ?", [number]).fetchone()
        return {"id": number, "reason": found[0], "told_at": found[1]}

    def _row(self, context: Sequence[float]) -> np.ndarray:
        size = self.ledger.config.context_size
        if len(context) != size:
            raise InputError(f"context: expected {size} numbers, got {len(context)}")
        return np.array([context], dtype=float).reshape(1, size)


class Viewer:
    """Runs side by side, looked at by one thread after the other."""

    def __init__(self, folders: Sequence[Path], trust: bool):
        self.runs = [ViewedRun(folder, trust) for folder in folders]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="view")

    async def call(self, place: int, call: Callable[[ViewedRun], Result]) -> Result:
        """What one of the runs says."""
        if place >= len(self.runs):
            raise InputError(f"run: expected less than {len(self.runs)}, got {place}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: call(self.runs[place]))

    def prepare(self) -> None:
        """Begin to read the runs while the browser starts."""
        for run in self.runs:
            self._thread.submit(run.data)

    async def marks(self) -> list[str]:
        """Of all runs."""
        return [await self.call(place, ViewedRun.mark) for place in range(len(self.runs))]

    async def close(self) -> None:
        """End."""
        for run in self.runs:
            await run.learner.close(1.0)
        self._thread.shutdown()
        for run in self.runs:
            run.ledger.close()


def make_view(viewer: Viewer, token: str) -> FastAPI:
    """The application. Its page is given to those who know the token; every other call needs it as a header."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        viewer.prepare()
        yield
        await viewer.close()

    app = FastAPI(title="hpsde view", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    add_errors(app)
    _add_page(app, viewer, token)
    _add_calls(app, viewer)
    return app


def _add_page(app: FastAPI, viewer: Viewer, token: str) -> None:
    text = page({"mode": "view", "runs": len(viewer.runs)}, "hpsde")

    @app.get("/", response_class=HTMLResponse)
    async def index(shown: Annotated[str, Query(alias="token")] = "") -> HTMLResponse:
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode()):
            return HTMLResponse("<!doctype html><title>hpsde</title><p>Open the address that hpsde view printed.", 401)
        return HTMLResponse(text, headers={"content-security-policy": OWN_ALONE, "referrer-policy": "no-referrer"})


def _add_calls(app: FastAPI, viewer: Viewer) -> None:
    @app.get("/changes")
    async def changes() -> JSONResponse:
        return JSONResponse({"runs": await viewer.marks()})

    @app.get("/data")
    async def data(run: Annotated[int, Query(ge=0)]) -> Response:
        return Response(await viewer.call(run, ViewedRun.data), media_type="application/json")

    @app.get("/rollout")
    async def rollout(run: Annotated[int, Query(ge=0)], id: Annotated[int, Query(ge=1, le=2**53)]) -> JSONResponse:
        return JSONResponse(await viewer.call(run, lambda each: each.rollout(id)))

    @app.post("/evaluate")
    async def evaluate(request: EvaluateRequest) -> JSONResponse:
        words = request.context, request.axis, request.step
        return JSONResponse(await viewer.call(request.run, lambda each: each.evaluate(*words)))

    @app.post("/correct")
    async def correct(request: CorrectionRequest) -> JSONResponse:
        learner = await viewer.call(request.run, lambda each: each.learner)
        await viewer.call(request.run, lambda each: check_known(each.ledger, [request.id]))
        words = {"failed": request.failed, "drop": request.drop, "reason": request.reason}
        await asyncio.shield(
            asyncio.ensure_future(learner.request("correct", id=request.id, value=request.value, **words))
        )
        return JSONResponse({"corrected": request.id})
