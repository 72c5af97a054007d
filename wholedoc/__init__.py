"""wholedoc: translation that reads the whole document."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wholedoc.config import SearchConfig
    from wholedoc.decoding.translator import (
        ScoredDocument,
        TranslatedDocument,
        Translation,
        Translator,
    )
    from wholedoc.errors import UserError

__version__ = "0.1.0.dev0"
__all__ = [
    "ScoredDocument",
    "SearchConfig",
    "TranslatedDocument",
    "Translation",
    "Translator",
    "UserError",
    "__version__",
]

_HOMES = {"SearchConfig": "wholedoc.config", "UserError": "wholedoc.errors"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: everything below imports this module."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_HOMES.get(name, "wholedoc.decoding.translator")), name)
    raise AttributeError(f"module 'wholedoc' has no attribute {name!r}")
