"""LibreTranslate's dialect: Weblate, Nextcloud, Mastodon, ``libretranslatepy``."""

import asyncio
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from wholedoc.service.core import Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.languages import primary
from wholedoc.service.markup import Markup
from wholedoc.service.web import Fields, Route, Runner, Sent, describe_fields, read_fields


def shape_error(_: int, message: str) -> dict[str, Any]:
    """An error as LibreTranslate's clients expect it."""
    return {"error": message}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of the dialect."""
    router = APIRouter(
        tags=["LibreTranslate"], route_class=Route, dependencies=[Depends(read_fields)]
    )

    @router.post(
        "/translate",
        openapi_extra=describe_fields("q", "source", "target", "format", "alternatives", "api_key"),
    )
    async def translate(request: Request, fields: Sent) -> Response:
        """Translate a text, or a list of texts, each by itself."""
        return await runner.wait(request, lambda ticket: _translate(service, fields, ticket))

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The languages that can be translated from, with those they can be translated to."""
        return [
            {"code": code, "name": name, "targets": service.targets(code)}
            for code, name in service.languages().items()
        ]

    @router.post("/detect", openapi_extra=describe_fields("q"))
    async def detect(request: Request, fields: Sent) -> Response:
        """The language of a text, of those that can be translated from."""
        return await runner.answer(request, lambda _: _detected(service, _wanted(fields, "q")))

    @router.post("/translate_file", openapi_extra=describe_fields("source", "target", file="file"))
    async def translate_file(request: Request, fields: Sent) -> Response:
        """Translate a file in its format; the answer says where it can be fetched."""
        base = str(request.base_url)
        return await runner.answer(
            request, lambda ticket: _translate_file(service, fields, base, ticket)
        )

    @router.get("/download_file/{number}/{key}/{name}")
    async def download_file(number: str, key: str, name: str) -> Response:
        """A translated file."""
        document = service.stored(number, key)
        document.fetched = True
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{_quoted(name)}"}
        return Response(document.data, headers=headers, media_type="application/octet-stream")

    @router.post("/suggest", openapi_extra=describe_fields("q", "s", "source", "target"))
    async def suggest(request: Request, fields: Sent) -> Response:
        """Take a better translation, which is recalled from then on."""
        return await runner.answer(request, lambda _: _suggest(service, fields))

    @router.get("/frontend/settings")
    async def settings(request: Request) -> dict[str, Any]:
        """What LibreTranslate's page asks for."""
        pair = next(iter(service.engines))
        names = service.languages()
        sides = [{"code": code, "name": names[code]} for code in pair]
        return {
            "apiKeys": False,
            "charLimit": service.limits.characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": bool(request.app.state.token),
            "language": {"source": sides[0], "target": sides[1]},
            "suggestions": service.suggestions is not None,
            "supportedFilesFormat": service.endings,
        }

    return router


def _wanted(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not value:
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    return value


async def _translate(service: Service, fields: Fields, ticket: Ticket) -> dict[str, Any]:
    texts, source = fields.texts("q"), _wanted(fields, "source")
    if not texts:
        raise RequestError(400, "Invalid request: missing q parameter")
    markup = fields.text("format", "text")
    if markup not in ("text", "html"):
        raise RequestError(400, f"{markup} format is not supported; use text or html")
    count, most = fields.number("alternatives"), service.limits.alternatives
    if not 0 <= count <= most:
        raise RequestError(400, f"{count} alternatives are not possible; ask for 0 to {most}")
    tags = Markup("html" if markup == "html" else "")
    given = (texts, source, _wanted(fields, "target"), tags, "", ticket)
    found = await service.translate_texts(*given, alternatives=count)
    several = fields.is_list("q")
    translations = [each.text for each in found]
    answer: dict[str, Any] = {"translatedText": translations if several else translations[0]}
    if primary(source) == "auto":
        detected = [await asyncio.to_thread(_language, service, text) for text in texts]
        answer["detectedLanguage"] = detected if several else detected[0]
    if count:
        others = [list(each.alternatives) for each in found]
        answer["alternatives"] = others if several else others[0]
    return answer


def _suggest(service: Service, fields: Fields) -> dict[str, bool]:
    texts = _wanted(fields, "q"), _wanted(fields, "s")
    service.suggest(_wanted(fields, "source"), _wanted(fields, "target"), *texts)
    return {"success": True}


def _language(service: Service, text: str) -> dict[str, Any]:
    code, share = service.detect(text)[0]
    return {"confidence": round(100 * share), "language": code}


def _detected(service: Service, text: str) -> list[dict[str, Any]]:
    return [
        {"confidence": round(100 * share), "language": code}
        for code, share in service.detect(text)
        if share > 0
    ]


def _translate_file(service: Service, fields: Fields, base: str, ticket: Ticket) -> dict[str, Any]:
    file = fields.file("file")
    source, target = _wanted(fields, "source"), _wanted(fields, "target")
    data, characters = service.translate_file(file.data, file.name, source, target, ticket)
    number, key = service.keep(file.name, data, characters)
    name = f"{primary(target)}_{file.name}"
    return {"translatedFileUrl": f"{base}download_file/{number}/{key}/{_quoted(name)}"}


def _quoted(name: str) -> str:
    return quote(name.replace("/", "_"), safe="")
