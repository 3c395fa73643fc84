"""The web application: paths, what they take, and what they answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from fastapi.sse import format_sse_event

from mtf_models import __version__
from mtf_models.errors import MtfError
from mtf_models.serve.engine import Engine
from mtf_models.serve.guard import Guard
from mtf_models.serve.jobs import Job, QueueFull
from mtf_models.serve.schema import Generate, Generated, Health, Score, Scored

_SECONDS_BETWEEN_LOOKS = 0.2


def make_app(engine: Engine, name: str) -> FastAPI:
    """The application of an engine, which it starts and stops.

    Args:
        engine: not started.
        name: of the model, for readers.
    """

    @contextlib.asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title=f"mtf_models: {name}", version=__version__, lifespan=running)
    app.add_middleware(Guard, measures=engine.measures)

    @app.post("/v1/generate", response_model=Generated, responses=_REFUSALS)
    async def generate(asked: Generate, request: Request) -> Any:
        """Decodes inputs. With `stream`, sends pieces of text as server-sent events."""
        if asked.stream:
            return await _streamed(engine, asked)
        return await _answer(engine, await _job(engine.generation, asked), request)

    @app.post("/v1/score", response_model=Scored, responses=_REFUSALS)
    async def score(asked: Score, request: Request) -> Any:
        """Says how likely targets are."""
        return await _answer(engine, await _job(engine.scoring, asked), request)

    @app.get("/health")
    async def health() -> Health:
        """Whether the server runs, and what it serves."""
        return Health(
            model=name,
            step=engine.step,
            parameters=engine.model.parameters,
            max_input_tokens=engine.max_input,
            max_tokens=engine.max_tokens,
            waiting=len(engine.queue),
        )

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times, for Prometheus."""
        engine.measures.waiting.set(len(engine.queue))
        return Response(engine.measures.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return resources.files("mtf_models.serve").joinpath("page.html").read_text("utf-8")

    return app


_REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"description": "The request is too large."},
    422: {"description": "The request cannot be answered, and why."},
    503: {"description": "Too many requests wait; try again later."},
}


async def _job(make: Any, asked: Any, *args: Any) -> Job:
    try:  # Not here, since it may wait for the model's config while that is used.
        return await asyncio.to_thread(make, asked, *args)
    except MtfError as error:
        raise HTTPException(422, str(error)) from error


def _submit(engine: Engine, job: Job) -> asyncio.Future[Any]:
    try:
        engine.queue.put(job)
    except QueueFull:
        raise HTTPException(
            503, "Too many requests wait for the model; try again later.", {"Retry-After": "1"}
        ) from None
    return asyncio.wrap_future(job.answer)


async def _answer(engine: Engine, job: Job, request: Request) -> Any:
    """The answer, unless whoever asked goes away."""
    answer = _submit(engine, job)
    while not (await asyncio.wait([answer], timeout=_SECONDS_BETWEEN_LOOKS))[0]:
        if await request.is_disconnected():
            answer.cancel()
            return Response(status_code=499)
    try:
        return answer.result()
    except MtfError as error:
        raise HTTPException(422, str(error)) from error


async def _streamed(engine: Engine, asked: Generate) -> StreamingResponse:
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue()

    def tell(piece: str | None) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, piece)

    job = await _job(engine.generation, asked, tell)
    answer = _submit(engine, job)
    answer.add_done_callback(lambda _: pieces.put_nowait(None))

    async def events() -> AsyncIterator[bytes]:
        try:
            while (piece := await pieces.get()) is not None:
                yield format_sse_event(event="text", data_str=json.dumps({"text": piece}))
            yield format_sse_event(event="done", data_str=answer.result().model_dump_json())
        except MtfError as error:
            yield format_sse_event(event="error", data_str=json.dumps({"detail": str(error)}))
        finally:
            answer.cancel()  # Nobody listens any more.

    return StreamingResponse(events(), media_type="text/event-stream")
