"""DOCX: every place with text is found, and nothing but text changes."""

import io
import zipfile
from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from wholedoc.errors import UserError
from wholedoc.formats.docx import Docx
from wholedoc.formats.segments import Content, Tag, plain, shown, tags_of

MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
W = f"{{{MAIN}}}"
SPACES = (
    f'xmlns:w="{MAIN}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
ROOTS = {"document": "document.main", "header1": "header", "footer1": "footer"}
TEXTS = st.text("abcdéß漢 &<>\"'1", max_size=8)
Parts = dict[str, bytes]


def part(root: str, body: str) -> bytes:
    return f"{HEAD}<w:{root} {SPACES}>{body}</w:{root}>".encode()


def make(body: str, extra: Parts | None = None, main: str = "word/document.xml") -> bytes:
    """A document with a body, and other parts by their names."""
    parts = {main: part("document", f"<w:body>{body}<w:sectPr/></w:body>"), **(extra or {})}
    kinds = {main: "document.main"} | {
        name: name.split("/")[-1].strip("0123456789.xml") for name in extra or {}
    }
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{WORD}.{kind}+xml"/>'
        for name, kind in kinds.items()
    )
    space = "http://schemas.openxmlformats.org/package/2006/content-types"
    listing = f'{HEAD}<Types xmlns="{space}">{types}</Types>'.encode()
    return pack({"[Content_Types].xml": listing, **parts, "word/media/a.png": b"\x89PNG" * 9})


def pack(members: Parts) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        for n, (name, data) in enumerate(members.items()):
            info = zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6))
            info.compress_type = zipfile.ZIP_DEFLATED if n else zipfile.ZIP_STORED
            target.writestr(info, data)
    return stream.getvalue()


def members(data: bytes) -> Parts:
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return {name: source.read(name) for name in source.namelist()}


def read(data: bytes) -> Docx:
    return Docx(data, "a.docx", "en", "de")


def p(*inner: str) -> str:
    return f'<w:p w:rsidR="00A1"><w:pPr><w:jc w:val="left"/></w:pPr>{"".join(inner)}</w:p>'


def t(text: str) -> str:
    return f'<w:t xml:space="preserve">{escape(text)}</w:t>'


def run(text: str, look: str = "", more: str = "") -> str:
    properties = f"<w:rPr>{look}</w:rPr>" if look else ""
    return f'<w:r w:rsidR="00B2">{properties}{t(text)}{more}</w:r>'


def field(instruction: str, result: str) -> str:
    def char(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    words = f"<w:r><w:instrText>{instruction}</w:instrText></w:r>"
    return char("begin") + words + char("separate") + result + char("end")


def link(inner: str) -> str:
    return f'<w:hyperlink r:id="rId7">{inner}</w:hyperlink>'


BOLD, ITALIC = "<w:b/>", "<w:i/>"
NOTE = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
DELETED = '<w:del w:id="9"><w:r><w:delText>gone</w:delText></w:r></w:del>'


def canonical(data: bytes) -> bytes:
    result: bytes = etree.tostring(etree.fromstring(data), method="c14n")
    return result


def elements(data: bytes) -> Counter[str]:
    """How often each element stands in a file, but for those that text is made of."""
    skipped = {f"{W}{name}" for name in ("t", "r", "rPr", "b", "i", "proofErr", "lang")}
    return Counter(e.tag for e in etree.fromstring(data).iter() if e.tag not in skipped)


def upper(content: Content) -> Content:
    return tuple(each.upper() if isinstance(each, str) else each for each in content)


def body_of(data: bytes) -> bytes:
    return members(data)["word/document.xml"]


@st.composite
def runs(draw: st.DrawFn) -> str:
    more = draw(st.sampled_from(["", "", "<w:br/>", "<w:tab/>", "<w:softHyphen/>", t("z")]))
    look = draw(st.sampled_from(["", BOLD, ITALIC, BOLD + '<w:lang w:val="de-DE"/>']))
    return run(draw(TEXTS), look, more)


OTHERS = st.sampled_from(
    [NOTE, DELETED, '<w:proofErr w:type="spellStart"/>', "<w:r><w:rPr><w:b/></w:rPr></w:r>",
     field(" PAGE ", run("3")), f'<w:fldSimple w:instr=" PAGE ">{run("3")}</w:fldSimple>']
)  # fmt: skip


@st.composite
def paragraphs(draw: st.DrawFn) -> str:
    """A paragraph of anything, with at least a letter."""
    inner = []
    for n in range(draw(st.integers(1, 7))):
        several = "".join(draw(st.lists(runs(), min_size=1, max_size=2)))
        around = [several, link(several), field(' HYPERLINK "x" ', several), draw(OTHERS)]
        mark = f'<w:bookmarkStart w:id="{n}" w:name="b{n}"/>{several}<w:bookmarkEnd w:id="{n}"/>'
        around += [f'<w:ins w:id="{n}" w:author="x">{several}</w:ins>', mark]
        around += [f"<w:sdt><w:sdtContent>{several}</w:sdtContent></w:sdt>"]
        inner.append(draw(st.sampled_from(around)))
    inner.insert(draw(st.integers(0, len(inner))), run("k"))
    return p(*inner)


def rearranged(data: st.DataObject, content: Content) -> Content:
    """New texts between the tags of a content, in a new order that keeps what is inside what."""

    def mix(parts: Sequence[str | Tag]) -> list[str | Tag]:
        mixed: list[str | Tag] = [data.draw(TEXTS)]
        for group in data.draw(st.permutations(grouped(parts))):
            if len(group) > 1:
                mixed += [group[0], *mix(group[1:-1]), "k", group[-1]]
            else:
                mixed += group
            mixed.append(data.draw(TEXTS))
        return mixed

    return ("A", *mix(content), "Z")


def grouped(parts: Sequence[str | Tag]) -> list[list[str | Tag]]:
    """The tags of the outermost level, each pair with what it surrounds."""
    groups: list[list[str | Tag]] = []
    depth = 0
    for each in parts:
        if depth:
            groups[-1].append(each)
        elif isinstance(each, Tag):
            groups.append([each])
        if isinstance(each, Tag) and each.kind != "alone":
            depth += 1 if each.kind == "open" else -1
    return groups


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
    before, after = elements(body_of(make(text))), elements(body_of(written))
    for name in ("softHyphen", "lastRenderedPageBreak"):  # stay only where the text does
        del before[W + name], after[W + name]
    assert before == after
    assert_ranges_in_order(body_of(written))


def assert_ranges_in_order(data: bytes) -> None:
    begun = set()
    for node in etree.fromstring(data).iter(f"{W}bookmarkStart", f"{W}bookmarkEnd"):
        if node.tag.endswith("Start"):
            begun.add(node.get(f"{W}id"))
        assert node.get(f"{W}id") in begun


def test_other_members_are_copied() -> None:
    data = make(p(run("One")), {"word/header1.xml": part("hdr", p(run("Top")))})
    document = read(data)
    written = document.write([upper(document.segments[0].source), None])
    before, after = members(data), members(written)
    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == ["word/document.xml"]
    infos = [zipfile.ZipFile(io.BytesIO(each)).infolist() for each in (data, written)]
    kept = [[(i.compress_type, i.date_time) for i in each] for each in infos]
    assert kept[0] == kept[1]


def test_write_twice_gives_the_same() -> None:
    document = read(make(p(run("One "), run("two", BOLD))))
    contents = [upper(segment.source) for segment in document.segments]
    assert document.write(contents) == document.write(contents)


def box(inner: str) -> str:
    return f"<w:txbxContent>{inner}</w:txbxContent>"


def both(choice: str, fallback: str) -> str:
    """A text box, and what programs show that do not know its kind."""
    return (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps">{box(choice)}</mc:Choice>'
        f"<mc:Fallback><w:pict>{box(fallback)}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


TABLE = f"<w:tbl><w:tr><w:tc>{p(run('cell'))}</w:tc></w:tr></w:tbl>"
CONTROL = f"<w:sdt><w:sdtPr/><w:sdtContent>{p(run('control'))}</w:sdtContent></w:sdt>"
LISTED = "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>"


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (TABLE, ["cell"]),
        (CONTROL, ["control"]),
        (p(run("out"), both(p(run("in")), p(run("in")))), ["out", "in"]),
        (p(run("out"), both(p(run("in")), p(run("other")))), ["out", "in", "other"]),
        (p(run("go "), link(run("there"))), ["go <a>there</a>"]),
        (p(link(run("all"))), ["all"]),
        (p(run("a "), field(' HYPERLINK "x" ', run("link"))), ["a <a>link</a>"]),
        (p(run("a "), field("HYPERLINK x", run("b ") + field("PAGE", run("3")) + run("c"))),
         ["a <a>b <field/>c</a>"]),
        (p(run("page "), field(" PAGE ", run("3")), run(" of it")), ["page <field/> of it"]),
        (p(run("a "), LISTED.format(run("choice")), run(" b")), ["a <sdt/> b"]),
        (p(run("old"), DELETED, run("new")), ["old<del/>new"]),
        (p(run("old "), f'<w:ins w:id="1">{run("new")}</w:ins>'), ["old <ins>new</ins>"]),
        (p(run("Hel"), '<w:proofErr w:type="x"/>', run("lo")), ["Hello"]),
        (p(run("plain "), run("bo", BOLD), run("ld", BOLD + '<w:lang w:val="en"/>')),
         ["plain <b>bold</b>"]),
        (p(run("all bold", BOLD)), ["all bold"]),
        (p(run("two", BOLD), run(" "), run("words", BOLD)), ["two words"]),
        (p(run("a long "), run("bold", BOLD), NOTE, run("bold", BOLD), NOTE, run(" end")),
         ["a long <b>bold<footnoteReference/>bold</b><footnoteReference/> end"]),
        (p(run("one", "", "<w:br/>"), run("two")), ["one⏎two"]),
        (p("<w:r><w:tab/></w:r>", run("indented"), NOTE), ["indented"]),
        (p("<w:r><w:t> not kept </w:t></w:r>"), ["not kept"]),
        (p(run(" – … ")) + p() + p(run("7")), ["7"]),
    ],
)  # fmt: skip
def test_places_and_tags(body: str, texts: list[str]) -> None:
    assert [shown(segment.source) for segment in read(make(body)).segments] == texts


def test_parts_in_their_order_with_their_places() -> None:
    extra = {
        "word/endnotes.xml": part("endnotes", f'<w:endnote w:id="1">{p(run("end"))}</w:endnote>'),
        "word/footer2.xml": part("ftr", p(run("bottom"))),
        "word/footnotes.xml": part("footnotes", f"<w:footnote>{p()}{p(run('foot'))}</w:footnote>"),
        "word/comments.xml": part("comments", f"<w:comment>{p(run('private'))}</w:comment>"),
        "word/header1.xml": part("hdr", p(run("top"))),
    }
    segments = read(make(p(run("main")), extra, "strange/name.xml")).segments
    assert [(plain(s.source), s.place) for s in segments] == [
        ("main", "strange/name.xml, paragraph 1"),
        ("top", "word/header1.xml, paragraph 1"),
        ("bottom", "word/footer2.xml, paragraph 1"),
        ("foot", "word/footnotes.xml, paragraph 2"),
        ("end", "word/endnotes.xml, paragraph 1"),
    ]


def looks(data: bytes) -> list[tuple[str, str]]:
    """Each run's text and the names of its properties."""
    found = []
    for node in etree.fromstring(body_of(data)).iter(f"{W}r"):
        text = "".join(each.text or "" for each in node.iter(f"{W}t"))
        found.append((text, " ".join(e.tag.removeprefix(W) for e in node.iterfind(f"{W}rPr/*"))))
    return found


def test_new_text_looks_as_its_tags_say() -> None:
    document = read(make(p(run("a long text "), run("bold", BOLD), run("italic", ITALIC))))
    source = document.segments[0].source
    assert shown(source) == "a long text <b>bold</b><i>italic</i>"
    bold, end_bold, italic, end_italic = tags_of(source)
    written = document.write([(italic, "schräg", end_italic, " und ", bold, "fett", end_bold, "!")])
    assert looks(written) == [("schräg", "i"), (" und ", ""), ("fett", "b"), ("!", "")]


def test_text_outside_of_tags_looks_like_most_of_the_paragraph() -> None:
    document = read(make(p(run("x"), run("mostly bold", BOLD))))
    opening, closing = tags_of(document.segments[0].source)
    written = document.write([("neu ", opening, "y", closing, " Schluss")])
    assert looks(written) == [("neu ", "b"), ("y", ""), (" Schluss", "b")]


def test_fallback_is_translated_too() -> None:
    document = read(make(p(run("out"), both(p(run("in")), p(run("in"))))))
    written = document.write([None, ("drin",)])
    assert body_of(written).count(b">drin<") == 2
    assert b">in<" not in body_of(written)


def test_spaces_are_kept_and_control_characters_are_not() -> None:
    written = read(make(p(run("x")))).write([(" a\x00\x0b\nb ",)])
    node = next(etree.fromstring(body_of(written)).iter(f"{W}t"))
    assert node.text == " a b "
    assert node.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"


def test_a_hyphen_that_does_not_break_is_text() -> None:
    data = make(p(run("an e"), "<w:r><w:noBreakHyphen/></w:r>", run("mail")))
    document = read(data)
    assert document.segments[0].source == ("an e-mail",)
    assert canonical(body_of(document.write([("an e-mail",)]))) == canonical(body_of(data))
    assert b">eine E-Mail</w:t>" in body_of(document.write([("eine E-Mail",)]))


def test_strict_documents_are_read() -> None:
    strict = b"http://purl.oclc.org/ooxml/wordprocessingml/main"
    parts = members(make(p(run("strict "), run("b", BOLD))))
    parts["word/document.xml"] = parts["word/document.xml"].replace(MAIN.encode(), strict)
    document = read(pack(parts))
    assert shown(document.segments[0].source) == "strict <b>b</b>"
    written = document.write([upper(document.segments[0].source)])
    assert plain(read(written).segments[0].source) == "STRICT B"


def test_wrong_tags_are_refused() -> None:
    document = read(make(p(run("long text "), run("b", BOLD))))
    with pytest.raises(UserError, match="not the tags"):
        document.write([("text",)])


def changed(name: str, data: bytes | None) -> bytes:
    parts = members(make(p(run("x"))))
    parts.pop(name)
    return pack(parts if data is None else {**parts, name: data})


def encrypted() -> bytes:
    data = bytearray(make(p(run("x"))))
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    return bytes(data)


LAUGHS = b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><x>&c;</x>'
BAD = {
    "text": (b"hello", "no zip archive"),
    "empty": (b"", "no zip archive"),
    "old": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "save it as .docx"),
    "cut": (make(p(run("x")))[:-40], "no zip archive"),
    "encrypted": (encrypted(), "encrypted"),
    "other zip": (pack({"a.txt": b"x"}), "not a Word document"),
    "no main part": (changed("word/document.xml", None), "main part is missing"),
    "not XML": (changed("word/document.xml", b"<a>\n<b></a>"), r"word/document.xml:2: not XML"),
    "empty XML": (changed("word/document.xml", b""), r"word/document.xml:1: not XML"),
    "entities": (changed("word/document.xml", LAUGHS), "document type"),
    "bomb": (pack({"a": b"", "b": b"\0" * (12 * 2**20)}), "expands to 12,582,912 bytes"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
def test_bad_documents(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(data)
    assert str(caught.value).startswith("a.docx")


def test_large_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make(p(run("x" * 300)))
    read(data)
    monkeypatch.setattr("wholedoc.formats.xml.MOST_TOTAL", 500)
    with pytest.raises(UserError, match=r"a.docx: expands to"):
        read(data)
    monkeypatch.setattr("wholedoc.formats.xml.MOST_MEMBER", 600)
    with pytest.raises(UserError, match=r"a.docx, word/document.xml: expands to"):
        read(data)


def test_damaged_data_is_named() -> None:
    data = bytearray(make(p(run("x" * 50))))
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        at = source.getinfo("word/document.xml").header_offset + 80
    data[at : at + 8] = b"\xff" * 8
    with pytest.raises(UserError, match=r"word/document.xml: damaged"):
        read(bytes(data))


def test_fields_that_nest_or_begin_without_end_are_read() -> None:
    begin = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
    deep = run("a")
    for _ in range(1000):
        deep = field("HYPERLINK x", deep)
    data = make(p(run("b "), deep) + p(begin * 20_000, run("c")))
    document = read(data)
    assert [plain(segment.source) for segment in document.segments] == ["b ", "c"]
    out = document.write([segment.source for segment in document.segments])
    assert canonical(members(out)["word/document.xml"]) == canonical(
        members(data)["word/document.xml"]
    )
