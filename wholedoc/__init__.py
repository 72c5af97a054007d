"""wholedoc: translation that reads the whole document."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wholedoc.config import SearchConfig
    from wholedoc.corpus.glossary import Glossary
    from wholedoc.decoding.results import ScoredDocument, Term, TranslatedDocument, Translation
    from wholedoc.decoding.streaming import Stream, Update
    from wholedoc.decoding.translator import Knowledge, Translator
    from wholedoc.errors import UserError
    from wholedoc.tm.memory import TranslationMemory

__version__ = "0.1.0.dev0"
__all__ = [
    "Glossary",
    "Knowledge",
    "ScoredDocument",
    "SearchConfig",
    "Stream",
    "Term",
    "TranslatedDocument",
    "Translation",
    "TranslationMemory",
    "Translator",
    "Update",
    "UserError",
    "__version__",
]

_HOMES = {
    "Glossary": "wholedoc.corpus.glossary",
    "Knowledge": "wholedoc.decoding.translator",
    "SearchConfig": "wholedoc.config",
    "Stream": "wholedoc.decoding.streaming",
    "TranslationMemory": "wholedoc.tm.memory",
    "Translator": "wholedoc.decoding.translator",
    "Update": "wholedoc.decoding.streaming",
    "UserError": "wholedoc.errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: everything below imports this module."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_HOMES.get(name, "wholedoc.decoding.results")), name)
    raise AttributeError(f"module 'wholedoc' has no attribute {name!r}")
