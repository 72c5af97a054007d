"""OPUS-CAT's dialect: Trados, OmegaT, Wordfast."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from wholedoc.service.core import Service
from wholedoc.service.engine import Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.web import Runner, read_fields


class _Root(StringConvertor):
    """The first part of a path, in any case."""

    regex = "(?i:mtrestservice)"


register_url_convertor("mtrestservice", _Root())


def shape_error(_: int, message: str) -> dict[str, Any]:
    """An error for OPUS-CAT's clients."""
    return {"error": message}


def make_router(service: Service, runner: Runner) -> APIRouter:
    """The paths of the dialect."""
    router = APIRouter(tags=["OPUS-CAT"], dependencies=[Depends(read_fields)])

    @router.get("/{root:mtrestservice}/{method}", include_in_schema=False)
    @router.get("/MTRestService/{method}")
    async def call(method: str, request: Request) -> Response:
        """OPUS-CAT's calls, whatever case they and their parameters are in."""
        values = {name.lower(): value for name, value in request.query_params.items()}
        return await runner.wait(
            request, lambda ticket: _answer(service, method.lower(), values, ticket)
        )

    return router


async def _answer(service: Service, method: str, values: dict[str, str], ticket: Ticket) -> Any:
    pair = values.get("srclangcode", ""), values.get("trglangcode", "")
    if method in ("translatejson", "translate"):
        (found,) = await service.translate_texts([values.get("input", "")], *pair, ticket=ticket)
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
