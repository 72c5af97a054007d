"""A service for tests, on a port of its own."""

import threading

import uvicorn

from wholedoc.service.core import Service
from wholedoc.service.server import _Server, make_app


class Running:
    """A service on a port of its own, in a thread."""

    def __init__(self, service: Service, token: str = "") -> None:
        self.service, self.address = service, ""
        config = uvicorn.Config(make_app(service, token), port=0, log_level="critical")
        self._server = _Server(config, self._listen)
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        assert self._listens.wait(30)

    def _listen(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._listens.set()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()
