"""Requests and answers of HTTP: fields from wherever clients put them, answers that wait."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from ipaddress import ip_address
from secrets import compare_digest
from traceback import extract_tb
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message

from wholedoc.errors import UserError
from wholedoc.progress import say
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError

_PATIENCE = 3.0  # seconds that some clients wait for a byte, with room to spare
_LOOK = 1.0  # seconds between looks whether the client is still there
_TOKEN_FIELDS = frozenset({"api_key", "auth_key", "tokencode", "key", "token"})  # in any case
# Without the token: what has a key of its own in its address, as browsers send no token; and the
# languages, which LibreTranslate tells everyone and Weblate asks for without its key.
_OPEN = ("/download_file/", "/languages")
_LEFT = 499  # what a server notes when the client has left
Shape = Callable[[int, str], dict[str, Any]]
"""How a dialect says that something is wrong, from the status and the message."""


class File(NamedTuple):
    """A file that was sent."""

    name: str
    data: bytes


class Fields:
    """The fields of a request: of its query, and of its body as JSON or as a form."""

    def __init__(self, values: dict[str, list[Any]]) -> None:
        self._values = values

    @property
    def names(self) -> Collection[str]:
        """Of all fields that were sent."""
        return self._values.keys()

    def text(self, name: str, default: str = "") -> str:
        """A field as text; the first where there are several."""
        values = self._values.get(name, [])
        if not values or values[0] is None:
            return default
        if any(value != values[0] for value in values):
            raise RequestError(400, f"{name} is given more than once")
        if isinstance(values[0], bool | int | float):
            return json.dumps(values[0])
        if not isinstance(values[0], str):
            raise RequestError(400, f"{name} is not a text")
        return values[0]

    def texts(self, name: str) -> list[str]:
        """A field that may come several times, or hold a list."""
        if any(not isinstance(value, str) for value in self._values.get(name, [])):
            raise RequestError(400, f"{name} is not a text or a list of texts")
        return list(self._values.get(name, []))

    def number(self, name: str, default: int = 0) -> int:
        """A field as a whole number."""
        text = self.text(name)
        if text and not re.fullmatch("-?[0-9]{1,18}", text):
            raise RequestError(400, f"{name} is not a whole number")
        return int(text) if text else default

    def file(self, name: str) -> File:
        """A file that was sent; raises where there is none."""
        for value in self._values.get(name, []):
            if isinstance(value, File):
                return value
        raise RequestError(400, f"no file is given as {name}")

    def has_file(self, name: str) -> bool:
        """Whether a file was sent."""
        return any(isinstance(value, File) for value in self._values.get(name, []))

    def is_list(self, name: str) -> bool:
        """Whether a field was given as a list, or several times."""
        return f"{name}[]" in self._values or len(self._values.get(name, [])) > 1


async def read_fields(request: Request) -> Fields:
    """The fields of a request, after a check that it may be made."""
    most = request.app.state.service.limits.file_bytes + 1_000_000
    values: dict[str, list[Any]] = {}
    for name, value in request.query_params.multi_items():
        values.setdefault(name, []).append(value)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > most):
        raise RequestError(413, f"{length[:18]} bytes are more than {most:,}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        _add_json(values, await _read_body(request, most))
    elif kind == "application/x-www-form-urlencoded":
        _add_pairs(values, await _read_body(request, most))
    elif kind == "multipart/form-data":
        await _add_form(values, _limited(request, most))
    fields = Fields(values)
    check_access(request, fields)
    return fields


def describe_fields(*names: str, file: str = "") -> dict[str, Any]:
    """What OpenAPI says of a body: its fields, as JSON or as a form, and the name of a file."""
    properties: dict[str, Any] = {name: {"type": "string"} for name in names}
    kinds = {
        "application/json": properties,
        "application/x-www-form-urlencoded": properties,
        "multipart/form-data": {**properties, file: {"type": "string", "format": "binary"}},
    }
    chosen = ["multipart/form-data"] if file else list(kinds)[:2]
    content = {kind: {"schema": {"type": "object", "properties": kinds[kind]}} for kind in chosen}
    return {"requestBody": {"content": content}}


Sent = Annotated[Fields, Depends(read_fields)]
"""A parameter of what answers a request: the fields that came with it."""


def _limited(request: Request, most_bytes: int) -> Request:
    """A request whose body is refused once it has too many bytes, whatever its header says."""
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        taken += len(message.get("body", b""))
        if taken > most_bytes:
            raise RequestError(413, f"more than {most_bytes:,} bytes")
        return message

    return Request(request.scope, receive)


async def _add_form(values: dict[str, list[Any]], request: Request) -> None:
    async with request.form() as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                data = await value.read()
                values.setdefault(name, []).append(File(value.filename or "", data))
            else:
                values.setdefault(name, []).append(value)


def check_access(request: Request, fields: Fields) -> None:
    """Refuse what a page of another site sends, and what comes without the token.

    The token stands wherever its dialect puts it. A page sends without its user knowing: to another
    site, or to a name of its own that was made to point to this machine (DNS rebinding), for which
    browsers take the service to be that page's site.
    """
    token: str = request.app.state.token
    if not token and _is_rebound(request):
        what = f"{request.url.hostname} is no name of this service; ask for localhost"
        raise RequestError(403, f"{what}, or start it with --token")
    if request.method != "GET" and _is_of_another_site(request):
        raise RequestError(403, "pages of other sites may not send anything here")
    if not token or request.scope["path"].startswith(_OPEN):
        return
    header = request.headers.get("authorization", "")
    sent = (fields.text(name) for name in fields.names if name.lower() in _TOKEN_FIELDS)
    given = [header.partition(" ")[2], *sent]
    if not any(compare_digest(each.encode(), token.encode()) for each in given):
        raise RequestError(403, "the token is missing or wrong")


def _is_of_another_site(request: Request) -> bool:
    """Whether a page of another site sends this: browsers say so, or at least whose page it is."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    if site is not None:
        return site == "cross-site"
    is_page = origin == "null" or origin.startswith(("http://", "https://"))
    return is_page and origin.partition("://")[2] != request.headers.get("host")


def _is_rebound(request: Request) -> bool:
    """Whether a program of this machine asks a loopback address by a name that is not its own."""
    host, (here, *_) = request.url.hostname or "", request.scope.get("server") or ("",)
    return _is_loopback(here) and not (
        host == "localhost" or host.endswith(".localhost") or _is_address(host)
    )


def _is_loopback(host: str) -> bool:
    return _is_address(host) and ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _read_body(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise RequestError(413, f"more than {most_bytes:,} bytes")
    return bytes(body)


def _add_pairs(values: dict[str, list[Any]], body: bytes) -> None:
    """``curl -d`` sends letters as they are, in UTF-8; Starlette would take them for Latin-1."""
    for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        values.setdefault(name, []).append(value)


def _add_json(values: dict[str, list[Any]], body: bytes) -> None:
    if not body.strip():
        return
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "the body is not JSON") from error
    if not isinstance(content, dict):
        raise RequestError(400, "the body is not a JSON object")
    if b"\\u" in body and not _is_text(content):
        raise RequestError(400, "the body has half of a surrogate pair, which is no text")
    for name, value in content.items():
        if isinstance(value, list):
            values.setdefault(name, []).extend(value)
            values[f"{name}[]"] = []
        else:
            values.setdefault(name, []).append(value)


def _is_text(content: Any) -> bool:
    """Whether all texts in a value can be written."""
    try:
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Route(APIRoute):
    """A route of FastAPI, but that an endpoint of the request and its fields is called at once.

    To find out that such an endpoint depends on nothing else takes a tenth of a millisecond.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What gives the response to a request."""
        endpoint = self.endpoint
        if list(signature(endpoint).parameters) != ["request", "fields"]:
            return super().get_route_handler()

        async def answer(request: Request) -> Response:
            found: Response = await endpoint(request, await read_fields(request))
            return found

        return answer


class Runner:
    """Runs work outside the event loop, and keeps clients waiting for it."""

    def __init__(self, threads: int) -> None:
        """Make room for so many requests at once."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="wholedoc-request")

    def close(self) -> None:
        """Let what runs come to its end."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def stream(self, texts: Iterator[str]) -> AsyncIterator[str]:
        """Texts as they come, each waited for in a thread."""
        run = asyncio.get_running_loop().run_in_executor
        while text := await run(self._pool, next, texts, ""):
            yield text

    async def answer(self, request: Request, work: Callable[[Ticket], Any]) -> Response:
        """The result of some work in a thread as JSON."""
        run = asyncio.get_running_loop().run_in_executor
        return await self.wait(request, lambda ticket: run(self._pool, work, ticket))

    async def wait(self, request: Request, work: Callable[[Ticket], Awaitable[Any]]) -> Response:
        """The result of work that does not keep the event loop busy as JSON.

        Where it takes long, white space is sent before it, which JSON allows, so that clients
        with little patience stay. Work for a client that has left is given up.
        """
        ticket, shape = Ticket(), shape_of(request)
        task = asyncio.ensure_future(work(ticket))
        waited = 0.0
        while waited < _PATIENCE:
            look = min(_LOOK, _PATIENCE)
            done, _ = await asyncio.wait([task], timeout=look)
            if done:
                return await _result(task, shape)
            waited += look
            if await request.is_disconnected():
                ticket.cancelled = True
                return Response(status_code=_LEFT)
        return StreamingResponse(
            _spaces(request, task, ticket, shape), media_type="application/json"
        )


async def _result(task: "asyncio.Future[Any]", shape: Shape) -> Response:
    try:
        return JSONResponse(await task)
    except (RequestError, UserError) as error:
        return refuse(error, shape)
    except asyncio.CancelledError:
        if not task.done():  # it is this request that is cancelled
            raise
        return refuse(RequestError(409, "the document was closed, or the service ends"), shape)
    except Exception as error:  # noqa: BLE001 (it is our fault, and said to be)
        note_failure(error)
        return refuse(RequestError(500, "this should not have happened; please report it"), shape)


async def _spaces(
    request: Request, task: "asyncio.Future[Any]", ticket: Ticket, shape: Shape
) -> AsyncIterator[bytes]:
    """A space from time to time, then the answer; an error comes in its shape, with status 200."""
    try:
        while True:
            yield b" "
            done, _ = await asyncio.wait([task], timeout=_PATIENCE)
            if done:
                break
            if await request.is_disconnected():
                ticket.cancelled = True
                return
        yield bytes((await _result(task, shape)).body)
    except asyncio.CancelledError:
        ticket.cancelled = True
        raise


def refuse(error: RequestError | UserError, shape: Shape) -> JSONResponse:
    """An error in the shape of a dialect."""
    status = error.status if isinstance(error, RequestError) else 400
    headers = {"Retry-After": "2"} if status == 503 else None
    return JSONResponse(shape(status, str(error)), status_code=status, headers=headers)


def shape_of(request: Request) -> Shape:
    """The shape of errors at the path of a request: that of the dialect it belongs to."""
    shapes: list[tuple[str, str, Shape]] = request.app.state.shapes
    path, method = request.scope["path"].lower(), request.method
    return next(s for start, only, s in shapes if path.startswith(start) and only in ("", method))


def note_failure(error: Exception) -> None:
    """Say where in the code an error arose, but not its message: that may hold what was sent."""
    place = extract_tb(error.__traceback__)[-1]
    say(f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}")
