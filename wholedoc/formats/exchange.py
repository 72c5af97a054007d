"""Translated sentences for other tools: XLIFF 2.0 and TMX 1.4."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from wholedoc.formats.xliff import MACHINE_STATE
from wholedoc.formats.xml import clean_text

_XLIFF = "urn:oasis:names:tc:xliff:document:2.0"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    src: str
    trg: str
    approved: bool


def write_xliff(pairs: Sequence[Pair], name: str, src_language: str, trg_language: str) -> bytes:
    """Sentences as units of XLIFF 2.0; approved ones are final, the others a machine's."""
    attributes = {"version": "2.0", "srcLang": src_language, "trgLang": trg_language}
    root = etree.Element(f"{{{_XLIFF}}}xliff", attributes, nsmap={None: _XLIFF})
    file = _add(root, "file", id="1", original=clean_text(name))
    for n, pair in enumerate(pairs, start=1):
        machine = {"state": "translated", "subState": MACHINE_STATE}
        stands = {"state": "final"} if pair.approved else machine
        segment = _add(_add(file, "unit", id=str(n)), "segment", **stands)
        _add(segment, "source").text = clean_text(pair.src)
        _add(segment, "target").text = clean_text(pair.trg)
    return _bytes(root)


def write_tmx(pairs: Sequence[Pair], name: str, src_language: str, trg_language: str) -> bytes:
    """Sentences as units of TMX 1.4, with the document they come from."""
    root = etree.Element("tmx", version="1.4")
    header = {
        "creationtool": "wholedoc", "creationtoolversion": "1", "datatype": "plaintext",
        "segtype": "sentence", "adminlang": "en", "srclang": src_language, "o-tmf": "wholedoc",
    }  # fmt: skip
    etree.SubElement(root, "header", header)
    body = etree.SubElement(root, "body")
    today = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for pair in pairs:
        unit = etree.SubElement(body, "tu", changedate=today)
        etree.SubElement(unit, "prop", type="x-document").text = clean_text(name)
        for language, text in ((src_language, pair.src), (trg_language, pair.trg)):
            variant = etree.SubElement(unit, "tuv", {_LANG: language})
            etree.SubElement(variant, "seg").text = clean_text(text)
    return _bytes(root)


def _add(parent: Any, name: str, **attributes: str) -> Any:
    return etree.SubElement(parent, f"{{{_XLIFF}}}{name}", attributes)


def _bytes(root: Any) -> bytes:
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True))
