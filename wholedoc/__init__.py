"""wholedoc: translation that reads the whole document."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wholedoc.decoding.translator import TranslatedDocument, Translation, Translator

__version__ = "0.1.0.dev0"
__all__ = ["TranslatedDocument", "Translation", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the translator when it is first asked for: everything below it imports this module."""
    if name in ("TranslatedDocument", "Translation", "Translator"):
        from wholedoc.decoding import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'wholedoc' has no attribute {name!r}")
