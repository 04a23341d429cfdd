"""The service: ask, tell, correct, status, act and options of a run, as JSON over HTTP (docs/service.md)."""

from __future__ import annotations

import html
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from hpsde.errors import AskTellError, FileFormatError, HpsdeError, InputError, RunLockedError, StorageError
from hpsde.runs.ledger import Told
from hpsde.serve.learner import LearnerDiedError
from hpsde.serve.messages import (
    ActAnswer,
    ActRequest,
    AskAnswer,
    AskRequest,
    CorrectAnswer,
    CorrectRequest,
    OpenAnswer,
    OptionsAnswer,
    Refusal,
    TellAnswer,
    TellRequest,
    ToldRollout,
)
from hpsde.serve.served import ServedRun
from hpsde.serve.telling import UnknownRolloutError

FREE = ("/health",)
"""Paths that need no token."""
STATUS = (
    (UnknownRolloutError, 404),
    (InputError, 422),
    (AskTellError, 409),
    (RunLockedError, 503),
    (LearnerDiedError, 503),
    (StorageError, 507),
    (FileFormatError, 500),
)
"""What an error of hpsde is over HTTP; the first that fits."""
_SAID = {400: "no JSON", 401: "no or a wrong token", 404: "no such rollout", 409: "told already, and something else"}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": text}
    for status, text in {**_SAID, 413: "too long", 422: "not what was expected", 429: "too many requests"}.items()
}


def make_service(run: ServedRun) -> FastAPI:
    """The application. Its pages load nothing from elsewhere."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run.close()

    app = FastAPI(
        title=f"hpsde: {run.config.name}",
        version="1",
        description="Ask what to try, tell what came of it, use what was learned.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_REFUSALS,
    )
    add_errors(app)
    _add_asking(app, run)
    _add_looking(app, run)
    _add_pages(app)
    return app


def _add_asking(app: FastAPI, run: ServedRun) -> None:
    @app.post("/ask", response_model=AskAnswer)
    async def ask(request: AskRequest) -> Any:
        """Rollouts to run. Learns first where it is time to; that may take seconds."""
        return JSONResponse({"rollouts": await run.ask(request.contexts, request.count)})

    @app.post("/tell", response_model=TellAnswer)
    async def tell(request: TellRequest) -> Any:
        """What came of rollouts. The same may be told again; something else is a conflict (409)."""
        return JSONResponse((await run.tell(_told(request)))._asdict())

    @app.post("/correct", response_model=CorrectAnswer)
    async def correct(request: CorrectRequest) -> Any:
        """Another outcome of a rollout that was told. What was learned from it is learned anew before the answer."""
        words = {"failed": request.failed, "drop": request.drop, "reason": request.reason}
        await run.correct(request.id, request.value, **words)
        return JSONResponse({"corrected": request.id})


def _told(request: TellRequest) -> list[Told]:
    """The rollouts of a request."""
    alone = request.id is not None or request.value is not None or request.failed is not None
    if alone == (request.rollouts is not None):
        raise InputError("expected `id` with `return` or `failed`, or a list `rollouts` of these; one of the two")
    each: list[ToldRollout] = [request] if request.rollouts is None else list(request.rollouts)
    for one in each:
        if one.id is None or (one.value is None) == (one.failed is None):
            raise InputError(f"rollout {one.id}: expected an id, and a return or the reason why it failed")
    return [Told(one.id, one.value, one.failed, one.parameters) for one in each]


def _add_looking(app: FastAPI, run: ServedRun) -> None:
    @app.get("/status")
    async def status() -> Any:
        """Where the run stands, as `hpsde status` says it."""
        return JSONResponse(await run.status())

    @app.get("/open", response_model=OpenAnswer)
    async def open_rollouts() -> Any:
        """Rollouts that were asked for and not told yet: for a client that lost the answer."""
        return JSONResponse({"rollouts": await run.open_rollouts()})

    @app.post("/act", response_model=ActAnswer)
    async def act(request: ActRequest) -> Any:
        """The best known parameters in one or several contexts, and those of every option. Learns nothing."""
        if request.context is not None and request.contexts is not None:
            raise InputError("expected `context` or `contexts`, not both")
        return JSONResponse(await run.act(request.contexts if request.context is None else [request.context]))

    @app.get("/act", response_model=ActAnswer)
    async def act_in(context: Annotated[list[float] | None, Query()] = None) -> Any:
        """The same in one context: /act?context=0.3&context=1.5."""
        if context is not None and not all(map(math.isfinite, context)):
            raise InputError("context: expected finite numbers")
        return JSONResponse(await run.act(None if context is None else [context]))

    @app.get("/options", response_model=OptionsAnswer)
    async def options() -> Any:
        """Every option: where it rules, what it does there, what return to expect."""
        return JSONResponse(await run.options())


def _add_pages(app: FastAPI) -> None:
    @app.get("/health", responses={})
    async def health() -> Any:
        """Whether the server answers. Needs no token."""
        return {"ok": True}

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_describe(app.openapi()))


def _describe(schema: dict[str, Any]) -> str:
    """The calls as a page for people, with the names that each takes."""
    rows = []
    for path, methods in schema["paths"].items():
        for method, call in methods.items():
            content = call.get("requestBody", {}).get("content", {}).get("application/json", {})
            model = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            names = ", ".join(schema["components"]["schemas"][model]["properties"]) if model else ""
            cells = (f"{method.upper()} {path}", names, call.get("description", ""))
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    title = html.escape(schema["info"]["title"])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>body{{font:16px sans-serif;"
        "margin:2em auto;max-width:60em;padding:0 1em}td{vertical-align:top;padding:.4em 1em .4em 0}</style>"
        f"<h1>{title}</h1><p>{html.escape(schema['info']['description'])} The whole description: "
        f"<a href=openapi.json>openapi.json</a></p><table><tr><th>call<th>takes<th>does</tr>{''.join(rows)}</table>"
    )


def add_errors(app: FastAPI) -> None:
    """Every refusal is a text that says what was expected."""

    @app.exception_handler(HpsdeError)
    async def refuse(_: Request, error: HpsdeError) -> JSONResponse:
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        return JSONResponse({"error": str(error)}, status, {"retry-after": "1"} if status == 503 else None)

    @app.exception_handler(RequestValidationError)
    async def explain(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        malformed = any(each["type"] == "json_invalid" for each in found)
        text = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
        return JSONResponse({"error": text[:2000]}, 400 if malformed else 422)

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
