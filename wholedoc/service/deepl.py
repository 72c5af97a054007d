"""DeepL's dialect, version 2: the official clients through ``server_url``, Weblate, LibreOffice."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from wholedoc.service.core import Markup, Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.languages import name_of, primary
from wholedoc.service.web import Fields, Runner, Sent, read_fields

_VARIANTS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-BR", "PT-PT")}
_NAMES = {
    "EN-GB": "English (British)", "EN-US": "English (American)",
    "PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)",
}  # fmt: skip
_MOST_TEXTS = 50


def shape_error(_: int, message: str) -> dict[str, Any]:
    """An error as DeepL's clients expect it; both values must be texts."""
    return {"message": message, "detail": ""}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of the dialect."""
    router = APIRouter(prefix="/v2", tags=["DeepL"], dependencies=[Depends(read_fields)])

    @router.api_route("/translate", methods=["POST", "GET"])
    async def translate(request: Request, fields: Sent) -> Response:
        """Translate texts, each by itself, after their common context."""
        return await runner.answer(request, lambda ticket: _translate(service, fields, ticket))

    @router.api_route("/languages", methods=["GET", "POST"])
    async def languages(fields: Sent) -> Response:
        """The languages that can be translated from, or to."""
        return JSONResponse(_languages(service, fields.text("type", "source")))

    @router.api_route("/usage", methods=["GET", "POST"])
    async def usage() -> dict[str, int]:
        """How many characters were translated; there is no limit to speak of."""
        return {"character_count": service.characters, "character_limit": 10**12}

    @router.post("/document")
    async def document(fields: Sent) -> Response:
        """Take a document, to be translated in the background."""
        file = fields.file("file")
        name = fields.text("filename") or file.name
        source, target = fields.text("source_lang"), fields.text("target_lang")
        number, stored = service.store(file.data, name, source, target)
        return JSONResponse({"document_id": number, "document_key": stored.key})

    @router.api_route("/document/{number}", methods=["POST", "GET"])
    async def document_status(number: str, fields: Sent) -> Response:
        """What has become of a document."""
        return JSONResponse(_status(service, number, fields.text("document_key")))

    @router.api_route("/document/{number}/result", methods=["POST", "GET"])
    async def document_result(number: str, fields: Sent) -> Response:
        """A translated document; once it was fetched, it is gone."""
        stored = service.stored(number, fields.text("document_key"))
        if stored.status != "done":
            raise RequestError(503, "the document is not translated yet")
        service.forget(number)
        return Response(stored.data, media_type="application/octet-stream")

    return router


def _translate(service: Service, fields: Fields, ticket: Ticket) -> dict[str, Any]:
    texts = fields.texts("text")
    if not texts:
        raise RequestError(400, "Parameter 'text' not specified.")
    if len(texts) > _MOST_TEXTS:
        raise RequestError(413, f"{len(texts)} texts are more than {_MOST_TEXTS}")
    if fields.text("glossary_id"):
        raise RequestError(404, "there is no glossary of this id")
    tags = fields.text("tag_handling")
    if tags not in ("", "html", "xml"):
        raise RequestError(400, f"tag_handling {tags!r} is not supported; use html or xml")
    markup: Markup = "html" if tags else "text"
    source, target = fields.text("source_lang"), fields.text("target_lang")
    if not target:
        raise RequestError(400, "Value for 'target_lang' not supported.")
    context = fields.text("context")
    found = service.translate_texts(texts, source, target, markup, context, ticket)
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


def _languages(service: Service, kind: str) -> list[dict[str, Any]]:
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
