"""Apertium's dialect: OmegaT, Weblate."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from wholedoc.service.core import Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.web import Route, Runner, Sent, read_fields


def shape_error(status: int, message: str) -> dict[str, Any]:
    """An error as Apertium has it."""
    return {"status": "error", "code": status, "message": message, "explanation": message}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of the dialect."""
    router = APIRouter(tags=["Apertium"], route_class=Route, dependencies=[Depends(read_fields)])

    @router.get("/translate")
    async def translate(request: Request, fields: Sent) -> Response:
        """Translate a text, for ``langpair=de|en``."""
        text, pair = fields.text("q"), fields.text("langpair")
        return await runner.wait(request, lambda ticket: _translate(service, text, pair, ticket))

    @router.get("/listPairs")
    async def pairs() -> Response:
        """The languages that can be translated."""
        data = [{"sourceLanguage": src, "targetLanguage": trg} for src, trg in service.engines]
        answer = {"responseData": data, "responseDetails": None, "responseStatus": 200}
        return JSONResponse(answer)

    return router


async def _translate(service: Service, text: str, pair: str, ticket: Ticket) -> dict[str, Any]:
    source, _, target = pair.partition("|")
    if not source or not target:
        raise RequestError(400, "langpair is missing; write it as de|en")
    (found,) = await service.translate_texts([text], source, target, ticket=ticket)
    data = {"translatedText": found.text}
    return {"responseData": data, "responseDetails": None, "responseStatus": 200}
