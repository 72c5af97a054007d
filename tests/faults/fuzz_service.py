"""Fuzz the HTTP service over a socket: by schemathesis on its OpenAPI, and by fields and files."""

import argparse
import json
import string
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import targets
from fuzz import Report, run_examples
from hypothesis import strategies as st
from mutations import inputs
from serving import Running

from wholedoc.decoding.translator import Translator
from wholedoc.service.core import Limits, Service

# Fields of all dialects, and values that they may have.
_FIELDS = (
    "q", "s", "text", "source", "target", "source_lang", "target_lang", "format", "alternatives",
    "context", "tag_handling", "glossary_id", "glossary_ids", "document_key", "type", "name",
    "entries", "entries_format", "filename", "kind", "langpair", "input", "srcLangCode",
    "trgLangCode", "tokenCode", "api_key", "auth_key",
)  # fmt: skip
_LANGUAGES = ("de", "en", "DE", "EN-US", "auto", "de|en", "")
_PATHS = (
    "/translate", "/detect", "/languages", "/suggest", "/translate_file", "/frontend/settings",
    "/download_file/{document}/{key}/{name}", "/v2/translate", "/v2/languages", "/v2/usage",
    "/v2/document", "/v2/document/{document}", "/v2/document/{document}/result", "/v2/glossaries",
    "/v2/glossaries/{glossary}", "/v2/glossaries/{glossary}/entries", "/v2/glossary-language-pairs",
    "/MTRestService/{name}", "/MTRestService/TranslateJson", "/listPairs", "/api/documents",
    "/api/documents/{open}", "/api/documents/{open}/file", "/api/documents/{open}/memories",
    "/api/documents/{open}/glossary", "/api/documents/{open}/sentences/{place}",
    "/api/documents/{open}/sentences/{place}/alternatives", "/health", "/metrics", "/openapi.json",
    "/", "/page.js", "/{name}",
)  # fmt: skip
_METHODS = ("GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_KINDS = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "multipart/form-data", "text/plain", "application/json; charset=utf-16", "",
    "multipart/form-data; boundary=x; charset=none",
)  # fmt: skip
_TEXT = st.one_of(
    st.sampled_from(("s1 s2. s3", "<b>s1</b>", "html", "text", "tsv", "csv", "s1\tt1", "1", "-1")),
    st.sampled_from(_LANGUAGES),
    st.text(max_size=30),
    st.text("0123456789-.", max_size=12),
    st.just("9" * 5000),
    st.just("s1 " * 200),
)
_VALUE = st.recursive(
    st.one_of(_TEXT, _TEXT, st.none(), st.booleans(), st.integers(), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=2)),
    max_leaves=4,
)
MOST_ANSWER_SECONDS = 60
_REQUEST = ("method", "url", "headers", "params", "json", "data", "files", "cookies")


def make_service(model: Path, place: Path, **others: float) -> Running:
    """A service with small limits, on a port of its own."""
    limits = Limits(characters=5000, file_bytes=200_000, kept_documents=50, open_documents=50)
    limits = replace(limits, **others)
    service = Service([Translator.load(model)], (), limits, place / "suggestions", processes=True)
    return Running(service)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request: known paths and fields with any values, any bodies, any files.

    ``@open1`` in its path stands for an id that an answer has given.
    """
    path = draw(st.sampled_from(_PATHS))
    for name in ("document", "key", "glossary", "open", "place", "name"):
        if f"{{{name}}}" in path:
            given = [f"@{name}{n}" for n in range(3)]
            chosen = draw(st.one_of(st.sampled_from(["0", "1", "a.txt", *given, *given]), _TEXT))
            path = path.replace(f"{{{name}}}", chosen[:50])
    fields = {
        **draw(st.dictionaries(st.sampled_from(_FIELDS), _VALUE, max_size=4)),
        **draw(st.sampled_from([{}, {"source": "de", "target": "en"}, _PAIR, _PAIR])),
    }
    query = draw(st.booleans())
    request: dict[str, Any] = {"method": draw(st.sampled_from(_METHODS)), "path": path}
    request["params"] = {k: v for k, v in fields.items() if isinstance(v, str)} if query else {}
    shape = draw(st.sampled_from(["json", "json", "form", "file", "bytes", "none"]))
    if shape == "json":
        request["content"] = json.dumps(fields).encode()
        request["headers"] = {"content-type": "application/json"}
    elif shape == "form":
        request["data"] = {k: v for k, v in fields.items() if isinstance(v, str)}
    elif shape == "file":
        name, data = draw(_files())
        request["files"] = {draw(st.sampled_from(["file", "file", "q"])): (name, data)}
        request["data"] = {k: v for k, v in fields.items() if isinstance(v, str)}
    elif shape == "bytes":
        request["content"] = draw(inputs([json.dumps(fields).encode(), _MULTIPART], _WORDS))
        request["headers"] = {"content-type": draw(st.sampled_from(_KINDS))}
    return request


_PAIR = {"source_lang": "de", "target_lang": "en"}
_MULTIPART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\ns1\r\n--x--\r\n'
_WORDS = (b"--x", b"\r\n\r\n", b"filename=", b"\\ud800", b"[[", b"{", b"1e999", b"\x00", b"\xff")
DOCUMENTS: dict[str, list[bytes]] = {}


@st.composite
def _files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file of some format, changed or not, under any name."""
    ending = draw(st.sampled_from(sorted(DOCUMENTS)))
    data = draw(st.one_of(st.sampled_from(DOCUMENTS[ending]), inputs(DOCUMENTS[ending])))
    stem = draw(st.one_of(st.sampled_from(["a", "../../a", "/etc/passwd", "a" * 300, "a\0b"]),
                          st.text(string.printable + "äß\u202e", max_size=8)))  # fmt: skip
    return stem + ending, data


def know_documents(place: Path) -> None:
    """Take the documents to begin from."""
    endings = {"text": ".txt", "markdown": ".md", "html": ".html", "docx": ".docx", "odt": ".odt",
               "subtitles": ".srt", "xliff": ".xlf", "po": ".po", "corpus tmx": ".tmx"}  # fmt: skip
    for target in targets.make_targets(place, stored=False):
        if target.name in endings:
            DOCUMENTS[endings[target.name]] = list(target.seeds)


def check(answer: httpx.Response) -> str:
    """Whether an answer is a good one or an error in its shape; raises where it is neither."""
    status = answer.status_code
    if status >= 500 and status != 503:
        raise AssertionError(f"status {status}")
    if status == 503 and "retry-after" not in answer.headers:
        raise AssertionError("503 without Retry-After")
    if status >= 400 and answer.request.method != "HEAD":
        said = answer.json()
        assert isinstance(said, dict)
        assert any(isinstance(value, str) and value for value in said.values()), said
    elif "json" in answer.headers.get("content-type", "") and answer.request.method != "HEAD":
        answer.json()
    return "answers" if status < 400 else "errors"


def remember(known: dict[str, list[str]], answer: httpx.Response) -> None:
    """Keep the ids that answers give, for later requests."""
    if "json" not in answer.headers.get("content-type", "") or not answer.content:
        return
    said = answer.json()
    if isinstance(said, dict):
        for field, name in (("document_id", "document"), ("document_key", "key"),
                            ("glossary_id", "glossary"), ("id", "open")):  # fmt: skip
            if isinstance(said.get(field), str):
                known.setdefault(name, []).append(said[field])


def fill(known: dict[str, list[str]], path: str) -> str:
    """A path with ids that answers have given, the newest first."""
    for name, found in known.items():
        for n, number in enumerate(found[:-4:-1]):
            path = path.replace(f"@{name}{n}", number)
    return path


def fuzz_service(count: int, options: argparse.Namespace) -> None:
    """In a process of its own: half of the requests by schemathesis, half by fields."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="schemathesis|hypothesis|requests")
    place = options.place
    list(targets.make_targets(place / "originals"))
    know_documents(place)
    (place / "service").mkdir(exist_ok=True)
    running = make_service(place / "originals" / "run", place / "service")
    report = Report(options.report, place / "faults" / "http")
    current = place / "current"
    known: dict[str, list[str]] = {}
    client = httpx.Client(base_url=running.address, timeout=MOST_ANSWER_SECONDS)

    def send(request: dict[str, Any]) -> None:
        shown = repr(request).encode("utf-8", "replace")
        current.write_bytes(shown)
        request = dict(request)
        try:
            path = "path" in request and fill(known, request.pop("path"))
            url = httpx.URL(path=path) if path else request.pop("url")
            prepared = client.build_request(request.pop("method"), url, **request)
        except (UnicodeEncodeError, ValueError, TypeError, httpx.InvalidURL):
            return  # what no client can send
        try:
            answer = client.send(prepared)
            report.count(check(answer))
            remember(known, answer)
        except httpx.RemoteProtocolError as error:
            report.fault(error, shown)
        except Exception as error:  # noqa: BLE001 (all of it is what is looked for)
            report.fault(error, shown)

    def send_some(request: dict[str, Any]) -> None:
        if report.values["inputs"] < count:
            send(request)

    try:
        run_examples(_described_requests(running.address), send, count // 2, options.seed)
        while report.values["inputs"] < count:  # some were none that a client can send
            left = count - report.values["inputs"]
            run_examples(requests(), send_some, left, options.seed + left)
    finally:
        report.write()
        client.close()
        running.stop()


def _described_requests(address: str) -> st.SearchStrategy[dict[str, Any]]:
    """Requests that OpenAPI describes, and some that it does not; else those by fields."""
    try:
        import schemathesis
        from requests import Request
    except ImportError:
        return requests()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations()]
        cases = st.one_of([operation.as_strategy() for operation in operations])

    def prepare(case: Any) -> dict[str, Any]:
        values = case.as_transport_kwargs(base_url=address)
        request = Request(**{key: values[key] for key in _REQUEST if key in values}).prepare()
        headers = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
        return {
            "method": request.method,
            "url": str(request.url).removeprefix(address),
            "content": request.body or b"",
            "headers": headers,
        }

    return cases.map(prepare)
