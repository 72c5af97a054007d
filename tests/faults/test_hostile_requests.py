"""Requests that are damaged or made to do harm: 4xx in the dialect's shape, or the one 503."""

import gzip
import json
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fuzz_service
import httpx
import pytest
from fuzz_service import check, fill, make_service, remember, requests
from hypothesis import HealthCheck, given, settings
from serving import Running, Serving
from targets import make_targets
from watch import bounded

from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.workbench import clean_name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy that was hardly trained."""
    place = tmp_path_factory.mktemp("originals")
    make_targets(place)
    fuzz_service.know_documents(place)
    return place / "run"


@pytest.fixture(scope="module")
def running(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = make_service(model, tmp_path_factory.mktemp("service"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def web(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.address, timeout=30) as client:
        yield client


def test_any_requests(web: httpx.Client) -> None:
    known: dict[str, list[str]] = {}
    found = {"answers": 0, "errors": 0}

    @settings(
        max_examples=120,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def run(request: dict[str, Any]) -> None:
        request = dict(request)
        try:
            url = httpx.URL(path=fill(known, request.pop("path")))
            prepared = web.build_request(request.pop("method"), url, **request)
        except (ValueError, TypeError, httpx.InvalidURL):
            return  # what no client can send
        with bounded(60):
            answer = web.send(prepared)
        found[check(answer)] += 1
        remember(known, answer)

    run()
    assert all(found.values())


BAD: list[tuple[str, str, dict[str, Any], int]] = [
    ("POST", "/translate", {"q": "s1", "source": "de", "target": "en", "alternatives": "--5"}, 400),
    ("POST", "/translate", {"q": "s1", "source": "de", "target": "en", "format": "\ud800"}, 400),
    ("POST", "/translate", {"q": "\ud800", "source": "de", "target": "en"}, 400),
    ("POST", "/v2/translate", {"text": ["s1"] * 51, "target_lang": "EN"}, 413),
    ("POST", "/translate", {"q": "s1 " * 2000, "source": "de", "target": "en"}, 413),
    ("PUT", "/api/documents/x/sentences/none", {"text": "a"}, 422),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD)
def test_bad_fields(
    web: httpx.Client, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    headers = {"content-type": "application/json"}
    answer = web.request(method, path, content=json.dumps(body).encode(), headers=headers)
    assert answer.status_code == status
    assert check(answer) == "errors"


def test_a_key_that_is_not_ascii(web: httpx.Client) -> None:
    files = {"file": ("a.txt", b"s1")}
    number = web.post("/v2/document", data={"target_lang": "EN"}, files=files).json()["document_id"]
    assert web.get(f"/v2/document/{number}", params={"document_key": "ß"}).status_code == 404


def test_a_form_without_a_length_is_cut_off(web: httpx.Client) -> None:
    def body() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(30):
            yield b"a" * 100_000

    headers = {"content-type": "multipart/form-data; boundary=x"}
    try:
        answer = web.post("/api/documents", content=body(), headers=headers)
    except httpx.NetworkError:  # it was closed while more was sent
        return
    assert answer.status_code == 413


@pytest.mark.parametrize("name", ["../../a.tmx", "a" * 300 + ".tmx", "..", "a\0b.tmx", "ä" * 200])
def test_names_of_memories(web: httpx.Client, name: str) -> None:
    opened = web.post("/api/documents", json={"text": "s1", "source": "de", "target": "en"}).json()
    with web.stream("GET", f"/api/documents/{opened['id']}/events") as events:
        assert '"passes"' in "".join(events.iter_text())
    path = f"/api/documents/{opened['id']}/memories"
    (tmx,) = fuzz_service.DOCUMENTS[".tmx"]
    answer = web.post(path, files={"file": (name, tmx)})
    assert answer.status_code == 200, answer.text
    packed = web.post(path, files={"file": (name, gzip.compress(tmx))})
    assert packed.status_code == 400
    assert "unpacked" in packed.text
    broken = web.post(path, files={"file": (name, tmx[:200])})
    assert broken.status_code == 400
    assert "/" not in broken.json()["error"].partition(":")[0]


@pytest.fixture(scope="module")
def strict(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service with small limits for what is on its way."""
    limits = {"connections": 4, "silent_seconds": 0.2, "sent_bytes": 300_000, "sent_seconds": 0.5}
    found = make_service(model, tmp_path_factory.mktemp("strict"), **limits)
    yield found
    found.stop()


def _connect(serving: Serving, data: bytes = b"") -> socket.socket:
    found = socket.create_connection(("127.0.0.1", int(serving.address.rpartition(":")[2])), 10)
    found.sendall(data)
    return found


def _first_line(connection: socket.socket) -> str:
    return connection.recv(200).partition(b"\r\n")[0].decode()


_BEGUN = (
    b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_CHUNK = b"30d40\r\n" + b" " * 200_000 + b"\r\n"


def test_connections_that_say_nothing_are_closed(strict: Serving) -> None:
    for data in (b"", b"GET / HTTP/1.1\r\nHost: a\r\nX: "):
        with _connect(strict, data) as connection:
            begun = time.monotonic()
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            assert time.monotonic() - begun < 5


def test_no_more_connections_than_are_allowed(strict: Serving) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(_connect(strict))
        with _connect(strict, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
            assert _first_line(connection) == "HTTP/1.1 503 Service Unavailable"
    deadline = time.monotonic() + 10
    while httpx.get(f"{strict.address}/health").status_code != 200:
        assert time.monotonic() < deadline


def test_bodies_without_end_are_given_up(strict: Serving) -> None:
    with _connect(strict, _BEGUN) as connection:
        assert _first_line(connection).startswith("HTTP/1.1 408")
        with suppress(ConnectionResetError):  # and nothing more is read
            while connection.recv(1000):
                pass


def test_bodies_of_all_requests_are_limited(strict: Serving) -> None:
    with _connect(strict, _BEGUN + _CHUNK) as first, _connect(strict, _BEGUN) as second:
        time.sleep(0.1)
        second.sendall(_CHUNK)
        answer = second.recv(1000)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 2" in answer
        assert _first_line(first).startswith("HTTP/1.1 408")
    body = {"q": "s1", "source": "de", "target": "en"}
    assert httpx.post(f"{strict.address}/translate", json=body).status_code == 200


def test_files_wait_for_their_turn(web: httpx.Client, running: Running) -> None:
    service, before = running.service, running.service.limits
    fields = {"source": "de", "target": "en"}
    with ExitStack() as stack:
        for _ in range(before.files):
            stack.enter_context(service.file_turn(Ticket()))
        service.limits = replace(before, waiting=0)
        answer = web.post("/translate_file", files={"file": ("a.txt", b"s1")}, data=fields)
        service.limits = before
    assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "2")
    answer = web.post("/translate_file", files={"file": ("a.txt", b"s1")}, data=fields)
    assert answer.status_code == 200


def test_an_open_document_weighs_what_it_takes(web: httpx.Client, running: Running) -> None:
    service, before = running.service, running.service.limits
    body = {"text": "s1\n" * 1000, "source": "de", "target": "en"}
    service.limits = replace(before, kept_bytes=1_000_000)
    answer = web.post("/api/documents", json=body)
    service.limits = before
    assert answer.status_code == 503


def test_clean_names() -> None:
    assert clean_name("../../etc/passwd") == "passwd"
    assert clean_name("..") == "file"
    assert len(clean_name("ä" * 300).encode()) < 200


def test_what_is_kept_is_limited(running: Running) -> None:
    service = running.service
    limit = service.limits.kept_bytes
    with pytest.raises(RequestError, match="too many documents are kept"):
        service._make_room(limit + 1)


def test_openapi_describes_the_fields(web: httpx.Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = web.get("/openapi.json").json()["paths"]
    content = paths["/v2/translate"]["post"]["requestBody"]["content"]
    assert "target_lang" in content["application/json"]["schema"]["properties"]
    assert list(paths["/translate_file"]["post"]["requestBody"]["content"]) == [
        "multipart/form-data"
    ]
