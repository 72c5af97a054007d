"""Our own paths: documents that people work on, with approval, explanation and live progress."""

from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from wholedoc.service.web import File, Runner, Sent, describe_fields, read_fields
from wholedoc.service.workbench import OpenDocument, Workbench, describe_sentence, watch

_PATIENCE = 10.0  # seconds between signs of life while nothing happens
_PAGE = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
_DOCUMENT = describe_fields("text", "name", "source", "target", file="file")
_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self'; frame-ancestors 'none'"


def make_router(bench: Workbench, runner: Runner) -> APIRouter:
    """The paths under ``/api``."""
    router = APIRouter(prefix="/api", tags=["documents"], dependencies=[Depends(read_fields)])

    @router.post("/documents", status_code=201, openapi_extra=_DOCUMENT)
    def open_document(fields: Sent) -> Response:
        """Open a document, a file or a text, and begin to translate it."""
        file = _file_or_text(fields)
        number, document = bench.open(
            file.data, file.name, fields.text("source"), fields.text("target")
        )
        return JSONResponse({"id": number, **_describe(document)}, status_code=201)

    @router.get("/documents/{number}")
    def document(number: str) -> Response:
        """A document with all its sentences, and where their words come from."""
        return JSONResponse(_describe(bench.find(number)))

    @router.get("/documents/{number}/events")
    async def events(number: str) -> Response:
        """Server-sent events: sentence by sentence, pass by pass, until all is translated."""
        found = runner.stream(watch(bench.find(number), _PATIENCE))
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(found, media_type="text/event-stream", headers=headers)

    @router.put("/documents/{number}/sentences/{place}", openapi_extra=describe_fields("text"))
    async def approve(number: str, place: int, request: Request, fields: Sent) -> Response:
        """Approve a translation; the answer has all sentences that it changed."""
        found, text = bench.find(number), fields.text("text")
        return await runner.answer(
            request, lambda _: _changed(found, bench.approve(found, place, text))
        )

    @router.delete("/documents/{number}/sentences/{place}")
    async def withdraw(number: str, place: int, request: Request) -> Response:
        """Take an approval back."""
        found = bench.find(number)
        return await runner.answer(
            request, lambda _: _changed(found, bench.approve(found, place, None))
        )

    @router.get("/documents/{number}/sentences/{place}/alternatives")
    async def alternatives(number: str, place: int, request: Request) -> Response:
        """Other translations of a sentence."""
        found = bench.find(number)
        return await runner.answer(request, lambda _: bench.alternatives(found, place))

    @router.get("/documents/{number}/file")
    def fetch(number: str, fields: Sent) -> Response:
        """The translated document in its format, or its sentences as XLIFF or TMX."""
        data, name = bench.fetch(bench.find(number), fields.text("kind", "original"))
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        return Response(data, headers=headers, media_type="application/octet-stream")

    @router.delete("/documents/{number}")
    async def close(number: str) -> Response:
        """Close a document; nothing of it is kept."""
        bench.drop(number)
        return JSONResponse({"success": True})

    _add_knowledge(router, bench, runner)
    return router


def _add_knowledge(router: APIRouter, bench: Workbench, runner: Runner) -> None:
    """The paths of what people know: memories and glossaries."""

    @router.post("/documents/{number}/memories", openapi_extra=describe_fields(file="file"))
    async def memories(number: str, request: Request, fields: Sent) -> Response:
        """Recall from a translation memory, such as a TMX file."""
        found, file = bench.find(number), fields.file("file")
        return await runner.answer(
            request, lambda _: _changed(found, bench.recall_from(found, file.data, file.name))
        )

    @router.post("/documents/{number}/glossary", openapi_extra=describe_fields("entries"))
    async def glossary(number: str, request: Request, fields: Sent) -> Response:
        """Enforce the terms of a glossary: a file, or lines in the field ``entries``."""
        found = bench.find(number)
        file = fields.file("file") if fields.has_file("file") else _lines(fields.text("entries"))
        return await runner.answer(
            request, lambda _: _with_terms(found, bench.use_glossary(found, file.data, file.name))
        )


def make_page_router() -> APIRouter:
    """The page and its parts."""
    router = APIRouter(include_in_schema=False)

    async def part(request: Request) -> Response:
        file, kind = _PAGE[request.scope["path"].removeprefix("/")]
        data = files("wholedoc.service").joinpath("page", file).read_bytes()
        headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
        return Response(data, media_type=kind, headers=headers)

    for name in _PAGE:
        router.add_api_route(f"/{name}", part)
    return router


def _file_or_text(fields: Sent) -> File:
    text = fields.text("text")
    if text:
        return File(fields.text("name") or "text.txt", text.encode("utf-8", "replace"))
    return fields.file("file")


def _lines(text: str) -> File:
    """Lines that were typed, with a tab for ``=`` where they have none."""
    typed = (line if "\t" in line else line.replace("=", "\t", 1) for line in text.splitlines())
    return File("entries", "\n".join(typed).encode("utf-8", "replace"))


def _describe(document: OpenDocument) -> dict[str, Any]:
    return {
        "name": document.name,
        "source": document.caller.src_language,
        "target": document.caller.trg_language,
        "done": document.translated is not None,
        "memories": [memory.path.name for memory in document.memories],
        "glossary": _terms(document),
        "sentences": [describe_sentence(document, t) for t in range(len(document.text.sentences))],
    }


def _changed(document: OpenDocument, places: list[int]) -> dict[str, Any]:
    return {"changed": [describe_sentence(document, place) for place in places]}


def _with_terms(document: OpenDocument, places: list[int]) -> dict[str, Any]:
    return {"glossary": _terms(document), **_changed(document, places)}


def _terms(document: OpenDocument) -> list[tuple[str, str]]:
    """The terms of the glossary that was sent, with what they become."""
    entries = document.glossary.entries if document.glossary else ()
    return [(entry.source, entry.target) for entry in entries]
