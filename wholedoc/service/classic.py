"""Two dialects of GETs: OPUS-CAT (Trados, OmegaT, Wordfast), Apertium (OmegaT, Weblate)."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from wholedoc.service.core import Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.web import Runner, Sent, read_fields


def shape_opus(_: int, message: str) -> dict[str, Any]:
    """An error for OPUS-CAT's clients."""
    return {"error": message}


def shape_apertium(status: int, message: str) -> dict[str, Any]:
    """An error as Apertium has it."""
    return {"status": "error", "code": status, "message": message, "explanation": message}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of both dialects."""
    router = APIRouter(tags=["OPUS-CAT and Apertium"], dependencies=[Depends(read_fields)])

    @router.get("/MTRestService/{method}")
    async def opus(method: str, request: Request) -> Response:
        """OPUS-CAT's calls, whatever case their names and parameters are in."""
        values = {name.lower(): value for name, value in request.query_params.items()}
        return await runner.answer(
            request, lambda ticket: _opus(service, method.lower(), values, ticket)
        )

    @router.get("/translate")
    async def apertium(request: Request, fields: Sent) -> Response:
        """Apertium's translation of a text, for ``langpair=de|en``."""
        text, pair = fields.text("q"), fields.text("langpair")
        return await runner.answer(request, lambda ticket: _apertium(service, text, pair, ticket))

    @router.get("/listPairs")
    async def pairs() -> Response:
        """Apertium's list of the languages that can be translated."""
        data = [{"sourceLanguage": src, "targetLanguage": trg} for src, trg in service.engines]
        answer = {"responseData": data, "responseDetails": None, "responseStatus": 200}
        return JSONResponse(answer)

    return router


def _opus(service: Service, method: str, values: dict[str, str], ticket: Ticket) -> Any:
    pair = values.get("srclangcode", ""), values.get("trglangcode", "")
    if method in ("translatejson", "translate"):
        (found,) = service.translate_texts([values.get("input", "")], *pair, ticket=ticket)
        return {"translation": found.text} if method == "translatejson" else found.text
    if method == "listsupportedlanguagepairs":
        return [f"{src}-{trg}" for src, trg in service.engines]
    if method == "getlanguagepairmodeltags":
        service.choose(*pair, "", ticket)
        return []
    if method == "checkmodelstatus":
        service.choose(*pair, "", ticket)
        return "Model is loaded."
    if method in ("login", "batchtranslate"):
        raise RequestError(404, f"{method} is not offered")
    raise RequestError(404, f"there is no call {method!r}")


def _apertium(service: Service, text: str, pair: str, ticket: Ticket) -> dict[str, Any]:
    source, _, target = pair.partition("|")
    if not source or not target:
        raise RequestError(400, "langpair is missing; write it as de|en")
    (found,) = service.translate_texts([text], source, target, ticket=ticket)
    data = {"translatedText": found.text}
    return {"responseData": data, "responseDetails": None, "responseStatus": 200}
