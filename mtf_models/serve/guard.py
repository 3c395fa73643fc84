"""What stands before every request: the limit of its size, and its measures."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtf_models.serve.measures import Measures

MAX_BYTES = 1_000_000
"""Of the body of a request."""


class Guard:
    """Refuses bodies that are too large before they are read, and counts what is answered.

    Args:
        app: what answers.
        measures: of the server.
    """

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app, self._measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begin = 500, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refusal = _refusal(dict(scope["headers"]), scope["method"])
            await (refusal or self._app)(scope, receive, noted)
        finally:
            # Paths that there are not would be endlessly many.
            path = getattr(scope.get("route"), "path", "other")
            self._measures.requests.labels(path, status).inc()
            self._measures.seconds.labels(path).observe(time.perf_counter() - begin)


def _refusal(headers: dict[bytes, bytes], method: str) -> Any:
    length = headers.get(b"content-length", b"")
    if method == "POST" and not length.isdigit():
        return JSONResponse({"detail": "The request does not say its Content-Length."}, 411)
    if length.isdigit() and int(length) > MAX_BYTES:
        text = f"The request has {int(length):,} bytes, and at most {MAX_BYTES:,} are read."
        return JSONResponse({"detail": text}, 413)
    return None
