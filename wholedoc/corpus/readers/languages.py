"""Language codes: when two name the same language, and which of several is which side."""

from collections.abc import Sequence


def same_language(code: str, wanted: str) -> bool:
    """Tells whether two codes name one language, with or without a region (``et``, ``et-EE``)."""
    first = code.lower().replace("_", "-")
    second = wanted.lower().replace("_", "-")
    return first == second or first.startswith(f"{second}-") or second.startswith(f"{first}-")


def choose_sides(codes: Sequence[str], src_language: str, trg_language: str) -> tuple[str, str]:
    """Chooses the source and the target code; empty for a side that cannot be told.

    A side whose language is not wanted by name is the other one of two; if neither is, the source
    comes first.
    """
    src = find_language(codes, src_language)
    trg = find_language(codes, trg_language)
    if len(codes) == 2:
        if not src_language and not trg_language:
            return codes[0], codes[1]
        if src and not trg_language:
            trg = codes[1 - codes.index(src)]
        if trg and not src_language:
            src = codes[1 - codes.index(trg)]
    return src, trg


def find_language(codes: Sequence[str], wanted: str) -> str:
    """Returns the code that names the wanted language, or an empty string."""
    # An exact match goes before a match of the language alone: pt-BR beside pt.
    exact = (code for code in codes if wanted and code.lower() == wanted.lower())
    near = (code for code in codes if wanted and same_language(code, wanted))
    return next(exact, "") or next(near, "")
