"""ODT: every place with text is found, white space is as the format has it, all else stays."""

from collections import Counter
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from test_docx import canonical, members, pack, rearranged, upper

from wholedoc.errors import UserError
from wholedoc.formats.odt import Odt
from wholedoc.formats.segments import plain, shown, tags_of

OASIS = "urn:oasis:names:tc:opendocument:xmlns"
KINDS = ("office", "text", "style", "table", "drawing")
NAMES = {"drawing": "draw"}
SPACES = (
    " ".join(f'xmlns:{NAMES.get(kind, kind)}="{OASIS}:{kind}:1.0"' for kind in KINDS)
    + f' xmlns:fo="{OASIS}:xsl-fo-compatible:1.0"'
    + ' xmlns:rsid="http://openoffice.org/2009/office" xmlns:xlink="http://www.w3.org/1999/xlink"'
)
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
TEXT = f"{{{OASIS}:text:1.0}}"
TEXTS = st.text("abcdé漢 &<1", max_size=8)


def style(name: str, properties: str) -> str:
    return (
        f'<style:style style:name="{name}" style:family="text">'
        f"<style:text-properties {properties}/></style:style>"
    )


BOLD = 'fo:font-weight="bold"'
STYLES = (
    style("T1", BOLD)
    + style("T2", f'{BOLD} rsid:rsid="0012"')
    + style("T3", 'rsid:rsid="0013" fo:language="de"')
    + style("T4", 'fo:font-style="italic"')
)


def content(body: str, root: str = "document-content") -> bytes:
    automatic = f"<office:automatic-styles>{STYLES}</office:automatic-styles>"
    inner = f"{automatic}<office:body><office:text>{body}</office:text></office:body>"
    return f"{HEAD}<office:{root} {SPACES}>{inner}</office:{root}>".encode()


def make(body: str, styles: str = "") -> bytes:
    """A document with a body and what its master page has."""
    page = f'<style:master-page style:name="S">{styles}</style:master-page>'
    master = f"<office:master-styles>{page}</office:master-styles>"
    sheet = f"{HEAD}<office:document-styles {SPACES}>{master}</office:document-styles>"
    return pack(
        {
            "mimetype": b"application/vnd.oasis.opendocument.text",
            "content.xml": content(body),
            "styles.xml": sheet.encode(),
            "META-INF/manifest.xml": b'<!DOCTYPE x SYSTEM "Manifest.dtd"><x/>',  # as of 2006
        }
    )


def read(data: bytes) -> Odt:
    return Odt(data, "a.odt", "en", "de")


def p(*inner: str, name: str = "p") -> str:
    return f'<text:{name} text:style-name="P1">{"".join(inner)}</text:{name}>'


def span(name: str, *inner: str) -> str:
    return f'<text:span text:style-name="{name}">{"".join(inner)}</text:span>'


def link(*inner: str) -> str:
    return f'<text:a xlink:href="x">{"".join(inner)}</text:a>'


def note(text: str) -> str:
    body = f"<text:note-body>{p(text)}</text:note-body>"
    return f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"


S3 = '<text:s text:c="3"/>'
OTHERS = st.sampled_from(
    [S3, "<text:tab/>", "<text:line-break/>", "<text:soft-page-break/>", "<text:span/>",
     '<text:page-number text:select-page="current">3</text:page-number>', "\n  ", "<!--x-->",
     note(""), '<text:bookmark text:name="b"/>', "<draw:frame/>"]
)  # fmt: skip


@st.composite
def paragraphs(draw: st.DrawFn) -> str:
    """A paragraph of anything, with at least a letter."""
    inner = []
    for n in range(draw(st.integers(1, 7))):
        text = escape(draw(TEXTS)) + draw(st.sampled_from(["", S3, "<text:tab/>", "\n"]))
        style_name = draw(st.sampled_from(["T1", "T2", "T3", "T4", "Strong"]))
        mark = f'<text:bookmark-start text:name="{n}"/>{text}<text:bookmark-end text:name="{n}"/>'
        around = [text, span(style_name, text), link(text), link(span(style_name, text), text)]
        around += [span("T4", text, span(style_name, text)), mark, draw(OTHERS)]
        inner.append(draw(st.sampled_from(around)))
    inner.insert(draw(st.integers(0, len(inner))), "k")
    return p(*inner)


def body_of(data: bytes) -> bytes:
    return members(data)["content.xml"]


def elements(data: bytes) -> Counter[str]:
    """How often each element stands in a file, but for those that text is made of."""
    skipped = {f"{TEXT}{name}" for name in ("s", "span", "soft-page-break")}
    return Counter(str(e.tag) for e in etree.fromstring(data).iter() if e.tag not in skipped)


@settings(deadline=None, max_examples=150)
@given(st.lists(paragraphs(), min_size=1, max_size=3))
def test_identity_is_the_same_file(texts: list[str]) -> None:
    data = make("".join(texts))
    document = read(data)
    assert len(document.segments) == len(texts)
    written = document.write([segment.source for segment in document.segments])
    assert canonical(body_of(written)) == canonical(body_of(data))


@settings(deadline=None, max_examples=150)
@given(paragraphs(), st.data())
def test_any_translation_is_read_again(text: str, data: st.DataObject) -> None:
    document = read(make(text))
    wanted = rearranged(data, document.segments[0].source)
    written = document.write([wanted])
    found = read(written).segments[0].source
    assert plain(found) == plain(wanted)
    kinds = [Counter(t.shown for t in tags_of(each) if t.kind == "alone")
             for each in (found, wanted)]  # fmt: skip
    assert kinds[0] == kinds[1]
    assert elements(body_of(written)) == elements(body_of(make(text)))
    begun = set()
    for node in etree.fromstring(body_of(written)).iter(
        f"{TEXT}bookmark-start", f"{TEXT}bookmark-end"
    ):
        if node.tag.endswith("start"):
            begun.add(node.get(f"{TEXT}name"))
        assert node.get(f"{TEXT}name") in begun


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (p("Title", name="h"), ["Title"]),
        (f"<table:table><table:table-cell>{p('cell')}</table:table-cell></table:table>", ["cell"]),
        (f"<text:list><text:list-item>{p('item')}</text:list-item></text:list>", ["item"]),
        (p("a", note("foot"), "b"), ["a<note/>b", "foot"]),
        (p("a ", f"<draw:frame><draw:text-box>{p('box')}</draw:text-box></draw:frame>", "b"),
         ["a <frame/>b", "box"]),
        (f"<text:tracked-changes>{p('gone')}</text:tracked-changes>{p('kept')}", ["kept"]),
        (p("a", f"<office:annotation>{p('private')}</office:annotation>", "b"),
         ["a<annotation/>b"]),
        (p("go ", link("there")), ["go <a>there</a>"]),
        (p(link("all")), ["all"]),
        (p(span("T1", "all bold")), ["all bold"]),
        (p("plain ", span("T1", "bo"), span("T2", "ld")), ["plain <b>bold</b>"]),
        (p("Hel", span("T3", "lo"), " you"), ["Hello you"]),
        (p("a named ", span("Strong", "one")), ["a named <f>one</f>"]),
        (p("  a \n", span("T3", " b"), S3, "c<text:line-break/>d"), ["a b   c⏎d"]),
        (p("see <text:bookmark-ref>page 3</text:bookmark-ref> there"),
         ["see <bookmark-ref/> there"]),
        (p(" – … ") + p() + p("7"), ["7"]),
    ],
)  # fmt: skip
def test_places_and_tags(body: str, texts: list[str]) -> None:
    assert [shown(segment.source) for segment in read(make(body)).segments] == texts


def test_headers_and_footers_with_their_places() -> None:
    page = f"<style:header>{p('top')}</style:header><style:footer>{p()}{p('low')}</style:footer>"
    document = read(make(p("main"), page))
    assert [(plain(s.source), s.place) for s in document.segments] == [
        ("main", "content.xml, paragraph 1"),
        ("top", "styles.xml, paragraph 1"),
        ("low", "styles.xml, paragraph 3"),
    ]


def test_other_members_are_copied_and_the_type_comes_first() -> None:
    data = make(p("One"), f"<style:header>{p('top')}</style:header>")
    before = members(data)
    after = members(read(data).write([None, ("OBEN",)]))
    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == ["styles.xml"]


def test_new_text_looks_as_its_tags_say() -> None:
    document = read(make(p("a long text ", span("T1", "bold"), link("link"))))
    bold, end_bold, opening, closing = tags_of(document.segments[0].source)
    written = document.write([(opening, "Verweis", closing, " und ", bold, "fett", end_bold, "!")])
    node = next(etree.fromstring(body_of(written)).iter(f"{TEXT}p"))
    assert [(each.tag.removeprefix(TEXT), each.text, each.tail) for each in node] == [
        ("a", "Verweis", " und "),
        ("span", "fett", "!"),
    ]


def test_spaces_that_would_be_lost_are_elements() -> None:
    document = read(make(p("x")))
    written = document.write([("  a\x00   b\nc ",)])
    node = next(etree.fromstring(body_of(written)).iter(f"{TEXT}p"))
    assert [(each.get(f"{TEXT}c"), each.tail) for each in node] == [("2", "a "), ("2", "b c ")]
    assert plain(read(written).segments[0].source) == "  a   b c "


def test_white_space_that_was_not_seen_stays_unseen() -> None:
    document = read(make(p("k\n", link("\n"))))
    assert plain(read(document.write([("AZ",)])).segments[0].source) == "AZ"


def test_white_space_that_was_seen_stays_seen() -> None:
    document = read(make(p("a ", link("x"), " b")))
    opening, closing = tags_of(document.segments[0].source)
    written = document.write([("y", opening, "x ", closing, " b")])
    assert plain(read(written).segments[0].source) == "yx  b"


def test_flat_documents() -> None:
    data = content(p("plain ", span("T1", "bold")), root="document")
    document = read(data)
    assert [s.place for s in document.segments] == ["paragraph 1"]
    assert canonical(document.write([document.segments[0].source])) == canonical(data)
    assert b"PLAIN " in document.write([upper(document.segments[0].source)])
    assert document.write([None]) == data


def test_wrong_tags_are_refused() -> None:
    document = read(make(p("long text ", link("b"))))
    with pytest.raises(UserError, match="not the tags"):
        document.write([("text",)])


def changed(name: str, data: bytes | None) -> bytes:
    parts = members(make(p("x")))
    parts.pop(name)
    return pack(parts if data is None else {**parts, name: data})


BAD = {
    "text": (b"hello", "no zip archive"),
    "empty": (b"", "no zip archive"),
    "old": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .odt"),
    "no content": (changed("content.xml", None), "it has no content.xml"),
    "not XML": (changed("content.xml", b"<a>\n<b></a>"), r"content.xml:2: not XML"),
    "entities": (changed("content.xml", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'),
                 "content.xml: a document type"),
    "encrypted": (changed("META-INF/manifest.xml", b"<m:encryption-data/>"), "encrypted"),
    "other XML": (b"<html/>", "not an OpenDocument text"),
    "cut XML": (content(p("x"), "document")[:-9], r"a.odt:2: not XML"),
    "bomb": (changed("content.xml", b" " * (12 * 2**20)), "content.xml: expands to"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
def test_bad_documents(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(data)
    assert str(caught.value).startswith("a.odt")
