"""The texts of a request: how they are read."""

from dataclasses import dataclass, replace

from wholedoc.formats.html import Html
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.segments import DocumentFile

_UTF_8 = b"\xef\xbb\xbf"  # says how a text is encoded, whatever a page says of itself


@dataclass(frozen=True)
class Markup:
    """What a client says of its texts."""

    tags: str = ""
    """What kind of tags they have: ``html`` or ``xml``; empty without any."""
    ignored: frozenset[str] = frozenset()
    """The names of tags whose content is not translated."""
    blocks: frozenset[str] = frozenset()
    """The names of tags of XML that part sentences."""
    inline: frozenset[str] = frozenset()
    """The names of tags of XML that do not."""
    split: bool = True
    """Whether a paragraph may have several sentences."""

    def read(self, text: str) -> DocumentFile:
        """A text as a document; it is written with a byte order mark (``utf-8-sig``)."""
        given = _UTF_8 + text.encode("utf-8", "replace"), "text", "", ""
        file: DocumentFile = PlainText(*given)
        if self.tags:
            file = Html(
                *given,
                ignored=self.ignored,
                xml=self.tags == "xml",
                blocks=self.blocks,
                inline=self.inline,
            )
        if not self.split:
            file.segments = [replace(each, sentence=True) for each in file.segments]
        return file
