"""The page of `hpsde view`: a server that shows runs, also while they go on, and corrects what was told."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import Field

from hpsde.errors import AskTellError, InputError
from hpsde.plots.drawings import Drawing
from hpsde.policy.answers import answers
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.files import json_ready
from hpsde.runs.ledger import Ledger
from hpsde.serve.learner import LearnerProcess
from hpsde.serve.messages import CorrectRequest, Message, Numbers
from hpsde.serve.newest import NewestPolicy
from hpsde.serve.report import page
from hpsde.serve.run_data import drawn_task, pictures, policy_at, run_data, scene_data
from hpsde.serve.service import add_errors
from hpsde.serve.telling import check_known

Result = TypeVar("Result")
LINE_POINTS = 81
"""Contexts along which options are drawn on the map."""
OWN_ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"
)
"""What a browser may load for the page: nothing from elsewhere."""
Place = Annotated[int, Field(strict=True, ge=0)]


class EvaluateRequest(Message):
    """A context of a run."""

    run: Place
    context: Numbers


class LineRequest(EvaluateRequest):
    """The same, and the place of the context number to go along."""

    axis: Place


class CorrectionRequest(CorrectRequest):
    """A correction in a run."""

    run: Place


class ViewedRun:
    """One run that is looked at. Its calls are made by one thread."""

    def __init__(self, folder: Path, trust: bool):
        self.ledger, self.newest = Ledger.open(folder), NewestPolicy(folder)
        self.task = drawn_task(self.ledger.config, trust)
        self.learner = LearnerProcess(folder, trust)
        self._scene: tuple[HierarchicalPolicy, dict[str, Any] | None] | None = None

    def mark(self) -> str:
        """Another text whenever something was asked, told, corrected or learned."""
        totals = self.ledger.store.totals()
        return f"{totals.rollouts}-{totals.done}-{totals.failed}-{totals.steps}-{totals.events}"

    def data(self) -> dict[str, Any]:
        """All that the page shows, but for the policy in a context."""
        mark = self.mark()
        writable = os.access(self.ledger.folder, os.W_OK) and not self.ledger.lock.running
        return run_data(self.ledger, self.newest.read()) | {"mark": mark, "writable": writable}

    def policy(self) -> HierarchicalPolicy:
        """The newest policy."""
        policy = self.newest.read()
        if policy is None:
            raise AskTellError("nothing has been learned yet")
        return policy

    def evaluate(self, context: Sequence[float]) -> dict[str, Any]:
        """The gate's choice in a context, every option there, and its picture."""
        policy, row = self.policy(), self._row(context)
        found = answers(policy, row)[0]
        drawing = pictures(self.task, row, np.array([[option["parameters"] for option in found["options"]]]))
        if drawing is not None:
            for option, line, points in zip(found["options"], drawing.lines, drawing.points, strict=True):
                option |= {"line": line, "points": points}
        goal = None if drawing is None or drawing.goal is None else drawing.goal[0]
        return json_ready(found | {"scene": self._scene_of(policy), "goal": goal})

    def line(self, context: Sequence[float], axis: int) -> dict[str, Any]:
        """Every option's parameters along one context number, and which is chosen."""
        policy, row = self.policy(), self._row(context)
        if axis >= policy.context_size:
            raise InputError(f"axis: expected less than {policy.context_size}, got {axis}")
        known = policy.known_contexts
        contexts = np.repeat(row, LINE_POINTS, axis=0)
        contexts[:, axis] = np.linspace(known[:, axis].min(), known[:, axis].max(), LINE_POINTS)
        at = policy_at(policy, contexts)
        return json_ready({"xs": contexts[:, axis], "means": at["means"], "chosen": at["chosen"]})

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

    def _scene_of(self, policy: HierarchicalPolicy) -> dict[str, Any] | None:
        """What is the same in all pictures, and between what they lie over the contexts that are known."""
        if self._scene is None or self._scene[0] is not policy:
            known = policy.known_contexts[:: max(len(policy.known_contexts) // 64, 1)]
            contexts = known if policy.context_size else np.zeros((1, 0))
            drawing: Drawing | None = pictures(self.task, contexts, policy.option_means(contexts).transpose(1, 0, 2))
            self._scene = policy, scene_data(drawing)
        return self._scene[1]


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
        yield
        await viewer.close()

    app = FastAPI(title="hpsde view", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    add_errors(app)
    _add_page(app, token)
    _add_calls(app, viewer)
    return app


def _add_page(app: FastAPI, token: str) -> None:
    text = page({"mode": "view"}, "hpsde")

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
    async def data(run: Annotated[int, Query(ge=0)]) -> JSONResponse:
        return JSONResponse(await viewer.call(run, ViewedRun.data))

    @app.get("/rollout")
    async def rollout(run: Annotated[int, Query(ge=0)], id: Annotated[int, Query(ge=1, le=2**53)]) -> JSONResponse:
        return JSONResponse(await viewer.call(run, lambda each: each.rollout(id)))

    @app.post("/evaluate")
    async def evaluate(request: EvaluateRequest) -> JSONResponse:
        return JSONResponse(await viewer.call(request.run, lambda each: each.evaluate(request.context)))

    @app.post("/line")
    async def line(request: LineRequest) -> JSONResponse:
        return JSONResponse(await viewer.call(request.run, lambda each: each.line(request.context, request.axis)))

    @app.post("/correct")
    async def correct(request: CorrectionRequest) -> JSONResponse:
        learner = await viewer.call(request.run, lambda each: each.learner)
        await viewer.call(request.run, lambda each: check_known(each.ledger, [request.id]))
        words = {"failed": request.failed, "drop": request.drop, "reason": request.reason}
        await asyncio.shield(
            asyncio.ensure_future(learner.request("correct", id=request.id, value=request.value, **words))
        )
        return JSONResponse({"corrected": request.id})
