"""A service for tests, on a port of its own."""

import threading
import time
from types import SimpleNamespace

import pytest
from fastapi import FastAPI

from wholedoc.service.core import Limits, Service
from wholedoc.service.server import Server, make_app


class Serving:
    """An app on a port of its own, in a thread."""

    def __init__(self, app: FastAPI, limits: Limits | None = None) -> None:
        self.address = ""
        self._server = Server(app, limits or Limits(), ("127.0.0.1", 0), self._listen)
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        assert self._listens.wait(30)

    def _listen(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._listens.set()

    def tell_to_end(self) -> None:
        """What SIGTERM does."""
        self._server.should_exit = True

    def listens(self) -> bool:
        """Whether connections are still taken."""
        return any(server.is_serving() for server in self._server.servers)

    def stop(self) -> None:
        self.tell_to_end()
        self._thread.join(30)
        assert not self._thread.is_alive()


class Running(Serving):
    """A service on a port of its own, in a thread."""

    def __init__(self, service: Service, token: str = "") -> None:
        self.service = service
        super().__init__(make_app(service, token), service.limits)


def ask_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DeepL's client not wait five seconds before it asks again for a document."""
    clock = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.01))
    monkeypatch.setattr("deepl.translator.time", clock)
