"""What clients may hold: connections that say nothing, and requests that are on their way."""

import asyncio
import resource
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from wholedoc.service.errors import RequestError

_FILES = 3  # open for each connection: itself, what is sent, what is read
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Arrivals:
    """Bounds the bodies of all requests that are not answered yet, and how long each takes."""

    def __init__(self, app: ASGIApp, most_bytes: int, seconds: float) -> None:
        self._app, self._most, self._seconds = app, most_bytes, seconds
        self._taken = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._seconds
        own, ended = 0, False

        async def arrive() -> Message:
            nonlocal own, ended
            if ended:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                raise RequestError(408, "the request took too long to arrive") from error
            ended = not message.get("more_body", False)
            size = len(message.get("body", b""))
            own += size
            self._taken += size
            if self._taken > self._most:
                raise RequestError(503, "too much is being sent; try again in some seconds")
            return message

        try:
            await self._app(scope, arrive, send)
        finally:
            self._taken -= own


def connection_class(most: int, seconds: float) -> type[H11Protocol]:
    """Connections of which there are so many, closed where no request comes for so long."""

    class Connection(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(_FULL)
                transport.close()
            else:
                self._look(object())

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _look(self, before: object) -> None:
            """Close the connection if it has no new request since it was looked at before."""
            if self.cycle is before and (self.cycle is None or self.cycle.response_complete):
                self.transport.abort()
            else:
                self._timer = self.loop.call_later(seconds, self._look, self.cycle)

    return Connection


def make_room_for_files(connections: int) -> int:
    """Let the process open as many files as connections need; returns how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES * connections:
        wanted = _FILES * connections
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft // _FILES)
