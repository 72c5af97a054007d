"""The service as an application of ASGI: all dialects, health, metrics, errors in their shapes."""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import socket

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wholedoc import __version__
from wholedoc.errors import UserError
from wholedoc.service import apertium, api, deepl, libretranslate, opus_cat
from wholedoc.service.arrivals import Arrivals, connection_class, make_room_for_files
from wholedoc.service.core import Limits, Service
from wholedoc.service.errors import RequestError
from wholedoc.service.web import Runner, Shape, note_failure, refuse, shape_of
from wholedoc.service.workbench import Workbench

_GRACE = 30  # seconds for answers that are on their way when the service is told to end
_SWEEP = 60.0  # seconds
_THREADS = 512  # requests that wait for their answers at once; the queues are what limits work

# Which dialect a path belongs to: its beginning in lower case, the method where only one, the
# shape of errors.
_SHAPES: list[tuple[str, str, Shape]] = [
    ("/v2/", "", deepl.shape_error),
    ("/v3/", "", deepl.shape_error),
    ("/mtrestservice/", "", opus_cat.shape_error),
    ("/translate", "GET", apertium.shape_error),
    ("/listpairs", "", apertium.shape_error),
    ("", "", libretranslate.shape_error),
]


def make_app(service: Service, token: str = "") -> FastAPI:
    """The application; it closes the service when it ends."""
    runner, bench = Runner(_THREADS), Workbench(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(_sweep(service, bench))
        yield
        sweeper.cancel()
        bench.cancel()
        service.close()  # first: others wait for its answers
        bench.close()
        runner.close()

    app = FastAPI(
        title="wholedoc",
        description="Translation that reads the whole document.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page would ask other servers for scripts
        redoc_url=None,
    )
    app.state.service, app.state.token, app.state.shapes = service, token, _SHAPES
    app.state.answers = Counter()
    # The routes themselves: those of a router that is included are looked for twice.
    for dialect in (libretranslate, deepl, opus_cat, apertium):
        app.router.routes.extend(dialect.make_router(service, runner).routes)
    app.router.routes.extend(api.make_router(bench, runner).routes)
    _add_errors(app)
    limits = service.limits
    app.add_middleware(Arrivals, most_bytes=limits.sent_bytes, seconds=limits.sent_seconds)
    app.add_middleware(_Counting, answers=app.state.answers)
    _add_health(app, service)
    app.router.routes.extend(api.make_page_router().routes)
    return app


async def _sweep(service: Service, bench: Workbench) -> None:
    """Drop what has been kept for too long, from time to time."""
    while True:
        await asyncio.sleep(_SWEEP)
        service.drop_old()
        bench.drop_old()


class _Counting:
    """Counts the answers by their status; a HEAD is answered as a GET."""

    def __init__(self, app: ASGIApp, answers: "Counter[int]") -> None:
        self._app, self._answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves the body out

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answers[message["status"]] += 1
            await send(message)

        await self._app(scope, receive, count if scope["type"] == "http" else send)


def _add_errors(app: FastAPI) -> None:
    """Give every error the shape of the dialect that was spoken."""

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> Response:
        return refuse(error, shape_of(request))

    @app.exception_handler(UserError)
    async def wrong(request: Request, error: UserError) -> Response:
        return refuse(error, shape_of(request))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        places = ", ".join(str(each["loc"][-1]) for each in error.errors())
        return refuse(RequestError(422, f"{places}: not what it should be"), shape_of(request))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        note_failure(error)
        what = "this should not have happened; please report it"
        return refuse(RequestError(500, what), shape_of(request))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        return refuse(RequestError(error.status_code, str(error.detail)), shape_of(request))


def _add_health(app: FastAPI, service: Service) -> None:
    started = time.time()

    @app.get("/health", tags=["service"])
    async def health() -> dict[str, str]:
        """Whether the service is there."""
        return {"status": "ok"}

    @app.get("/metrics", tags=["service"])
    async def metrics() -> PlainTextResponse:
        """Figures for Prometheus."""
        lines = [f"wholedoc_start_time_seconds {started:.0f}"]
        lines += [
            f'wholedoc_http_answers_total{{status="{status}"}} {count}'
            for status, count in sorted(app.state.answers.items())
        ]
        lines.append(f"wholedoc_characters_total {service.characters}")
        for (src, trg), engine in service.engines.items():
            label = f'{{model="{src}-{trg}"}}'
            figures = {f"{name}_total": value for name, value in vars(engine.counts).items()}
            figures["waiting"] = engine.waiting
            figures["processes"] = sum(process.ready for process in engine.processes)
            lines += [f"wholedoc_{name}{label} {value}" for name, value in figures.items()]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def run_app(
    app: FastAPI, host: str, port: int, tell: Callable[[str], None], seconds: float = 0
) -> None:
    """Serve until told to end, or for some seconds.

    ``tell`` is given the address once requests are answered.
    """
    server = Server(app, app.state.service.limits, (host, port), tell, seconds)
    gc.collect()
    gc.freeze()  # what there is will stay: to look through all of torch again and again costs a lot
    try:
        server.run()
    except SystemExit as error:  # what uvicorn does where it cannot listen
        app.state.service.close()
        what, fix = "cannot listen there", "choose another --port, or end what has it"
        raise UserError(what, where=f"{host}:{port}", fix=fix) from error


class Server(uvicorn.Server):
    """A server that says where it listens."""

    def __init__(
        self,
        app: FastAPI,
        limits: Limits,
        address: tuple[str, int],
        tell: Callable[[str], None],
        seconds: float = 0,
    ) -> None:
        host, port = address
        most = make_room_for_files(limits.connections)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=connection_class(most, limits.silent_seconds),
            log_level="critical",
            access_log=False,  # the text of a request may stand in its address
            timeout_graceful_shutdown=_GRACE,
        )
        super().__init__(config)
        self._tell, self._seconds = tell, seconds

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._tell(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
            if self._seconds:
                asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self.should_exit = True
