"""DeepL's dialect, version 2: the official clients through ``server_url``, Weblate, LibreOffice."""

from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from wholedoc.corpus.glossary import Glossary
from wholedoc.service.core import Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.glossaries import StoredGlossary, read_entries
from wholedoc.service.languages import name_of, primary
from wholedoc.service.markup import Markup
from wholedoc.service.web import Fields, Route, Runner, Sent, describe_fields, read_fields

_VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-BR", "PT-PT")}
_NAMES = {
    "EN-GB": "English (British)", "EN-US": "English (American)",
    "PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)",
}  # fmt: skip
_MOST_TEXTS = 50
_DOCUMENT = describe_fields("source_lang", "target_lang", "glossary_id", "filename", file="file")
_GLOSSARY = describe_fields("name", "source_lang", "target_lang", "entries", "entries_format")


def shape_error(_: int, message: str) -> dict[str, Any]:
    """An error as DeepL's clients expect it; both values must be texts."""
    return {"message": message, "detail": ""}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of the dialect."""
    router = APIRouter(
        prefix="/v2", tags=["DeepL"], route_class=Route, dependencies=[Depends(read_fields)]
    )

    @router.post(
        "/translate",
        openapi_extra=describe_fields(
            "text", "source_lang", "target_lang", "context", "tag_handling", "glossary_id"
        ),
    )
    @router.get("/translate")
    async def translate(request: Request, fields: Sent) -> Response:
        """Translate texts, each by itself, after their common context."""
        return await runner.wait(request, lambda ticket: _translate(service, fields, ticket))

    @router.post("/languages", openapi_extra=describe_fields("type"))
    @router.get("/languages")
    async def languages(fields: Sent) -> Response:
        """The languages that can be translated from, or to."""
        return JSONResponse(_languages(service, fields.text("type", "source")))

    @router.post("/usage")
    @router.get("/usage")
    async def usage() -> dict[str, int]:
        """How many characters were translated; there is no limit to speak of."""
        return {"character_count": service.characters, "character_limit": 10**12}

    @router.post("/document", openapi_extra=_DOCUMENT)
    async def document(fields: Sent) -> Response:
        """Take a document, to be translated in the background."""
        file = fields.file("file")
        name = fields.text("filename") or file.name
        ending, wanted = PurePath(name).suffix.lower(), fields.text("output_format").lower()
        if wanted and f".{wanted.removeprefix('.')}" != ending:
            raise RequestError(400, f"output_format {wanted!r}: {name!r} stays what it is")
        source, target = fields.text("source_lang"), fields.text("target_lang")
        glossary = _glossary(service, fields)
        number, stored = service.store(file.data, name, source, target, glossary)
        return JSONResponse({"document_id": number, "document_key": stored.key})

    @router.post("/document/{number}", openapi_extra=describe_fields("document_key"))
    @router.get("/document/{number}")
    async def document_status(number: str, fields: Sent) -> Response:
        """What has become of a document."""
        return JSONResponse(_status(service, number, fields.text("document_key")))

    @router.post("/document/{number}/result", openapi_extra=describe_fields("document_key"))
    @router.get("/document/{number}/result")
    async def document_result(number: str, fields: Sent) -> Response:
        """A translated document; once it was fetched, it is gone."""
        stored = service.stored(number, fields.text("document_key"))
        if stored.status == "error":
            raise RequestError(400, stored.message)
        if stored.status != "done":
            raise RequestError(503, "the document is not translated yet")
        service.forget(number)
        return Response(stored.data, media_type="application/octet-stream")

    _add_glossaries(router, service)
    return router


def _add_glossaries(router: APIRouter, service: Service) -> None:
    """The paths of glossaries."""

    @router.get("/glossary-language-pairs")
    async def glossary_pairs() -> dict[str, Any]:
        """The languages that a glossary can have: those of the models."""
        pairs = [{"source_lang": src, "target_lang": trg} for src, trg in service.engines]
        return {"supported_languages": pairs}

    @router.post("/glossaries", openapi_extra=_GLOSSARY)
    def make_glossary(fields: Sent) -> Response:
        """Make a glossary."""
        return JSONResponse(_describe_glossary(_make_glossary(service, fields)), status_code=201)

    @router.get("/glossaries")
    async def glossaries() -> dict[str, Any]:
        """All glossaries."""
        return {"glossaries": [_describe_glossary(each) for each in service.glossaries]}

    @router.get("/glossaries/{number}")
    async def glossary(number: str) -> dict[str, Any]:
        """A glossary without its entries."""
        return _describe_glossary(service.glossaries.find(number))

    @router.get("/glossaries/{number}/entries")
    async def glossary_entries(number: str) -> Response:
        """The entries of a glossary, in lines."""
        entries = service.glossaries.find(number).own.entries
        lines = "\n".join(f"{entry.source}\t{entry.target}" for entry in entries)
        return Response(lines, media_type="text/tab-separated-values")

    @router.delete("/glossaries/{number}")
    async def drop_glossary(number: str) -> Response:
        """Delete a glossary."""
        service.glossaries.drop(number)
        return Response(status_code=204)


def _make_glossary(service: Service, fields: Fields) -> StoredGlossary:
    pair = primary(fields.text("source_lang")), primary(fields.text("target_lang"))
    if pair not in service.engines:
        pairs = ", ".join(f"{a} to {b}" for a, b in service.engines)
        raise RequestError(400, f"no glossary from {pair[0]} to {pair[1]}; there is {pairs}")
    entries = read_entries(fields.text("entries"), fields.text("entries_format", "tsv"), pair)
    return service.glossaries.make(fields.text("name"), pair, entries)


def _describe_glossary(stored: StoredGlossary) -> dict[str, Any]:
    source, target = stored.pair
    return {
        "glossary_id": stored.number,
        "name": stored.name,
        "ready": True,
        "source_lang": source,
        "target_lang": target,
        "creation_time": stored.created,
        "entry_count": len(stored.own.entries),
    }


def _glossary(service: Service, fields: Fields) -> Glossary | None:
    """The glossary that a request names; it must be for the languages of the request."""
    if fields.texts("glossary_ids"):
        raise RequestError(400, "glossary_ids is not supported; give one glossary_id")
    number = fields.text("glossary_id")
    if not number:
        return None
    stored = service.glossaries.find(number)
    pair = primary(fields.text("source_lang")), primary(fields.text("target_lang"))
    if not pair[0]:
        raise RequestError(400, "a glossary needs source_lang")
    if pair != stored.pair:
        source, target = stored.pair
        raise RequestError(400, f"the glossary is from {source} to {target}")
    return stored.enforced


async def _translate(service: Service, fields: Fields, ticket: Ticket) -> dict[str, Any]:
    texts = fields.texts("text")
    if not texts:
        raise RequestError(400, "Parameter 'text' not specified.")
    if len(texts) > _MOST_TEXTS:
        raise RequestError(413, f"{len(texts)} texts are more than {_MOST_TEXTS}")
    glossary = _glossary(service, fields)
    markup = _markup(fields)
    source, target = fields.text("source_lang"), fields.text("target_lang")
    if not target:
        raise RequestError(400, "Value for 'target_lang' not supported.")
    context = fields.text("context")
    if fields.text("split_sentences") == "nonewlines":  # a line may end inside a sentence
        texts = [" ".join(line.strip() for line in text.split("\n")) for text in texts]
    given = (texts, source, target, markup, context, ticket)
    found = await service.translate_texts(*given, glossary=glossary)
    return {
        "translations": [
            {
                "detected_source_language": each.source.upper(),
                "text": each.text,
                "billed_characters": each.characters,
            }
            for each in found
        ]
    }


def _markup(fields: Fields) -> Markup:
    tags = fields.text("tag_handling")
    if tags not in ("", "html", "xml"):
        raise RequestError(400, f"tag_handling {tags!r} is not supported; use html or xml")
    splitting = fields.text("split_sentences", "1")
    if splitting not in ("0", "1", "default", "nonewlines"):
        what = f"split_sentences {splitting!r} is not supported; use 0, 1 or nonewlines"
        raise RequestError(400, what)
    formality = fields.text("formality", "default")
    if formality not in ("default", "prefer_more", "prefer_less"):
        what = f"formality {formality!r} is not supported; use prefer_more or prefer_less"
        raise RequestError(400, what)
    ignored, blocks, inline = (
        frozenset(name.strip().lower() for each in fields.texts(f) for name in each.split(","))
        for f in ("ignore_tags", "splitting_tags", "non_splitting_tags")
    )
    if tags != "xml":
        blocks = inline = frozenset()
    return Markup(tags, ignored, blocks, inline, splitting != "0")


def _languages(service: Service, kind: str) -> list[dict[str, Any]]:
    if kind not in ("source", "target"):
        raise RequestError(400, f"type {kind!r} is not known; use source or target")
    if kind == "target":
        codes = [v for code in service.targets() for v in _VARIANTS.get(code, (code.upper(),))]
    else:
        codes = [code.upper() for code in service.sources]
    return [
        {"language": code, "name": _NAMES.get(code, name_of(primary(code))), **_formality(kind)}
        for code in codes
    ]


def _formality(kind: str) -> dict[str, bool]:
    return {"supports_formality": False} if kind == "target" else {}


def _status(service: Service, number: str, key: str) -> dict[str, Any]:
    stored = service.stored(number, key)
    answer: dict[str, Any] = {"document_id": number, "status": stored.status}
    if stored.status in ("queued", "translating"):
        answer["seconds_remaining"] = 1
    elif stored.status == "done":
        answer["billed_characters"] = stored.characters
    else:
        answer["error_message"] = stored.message
    return answer
