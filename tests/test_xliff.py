"""XLIFF: segments out, targets in, with copies of the source's inline elements."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from wholedoc.errors import UserError
from wholedoc.formats.placing import find_units, place_tags
from wholedoc.formats.segments import Content, normalised, plain, shown
from wholedoc.formats.xliff import Xliff

OLD = """<?xml version='1.0' encoding="UTF-8" standalone="no"?>
<!-- a comment -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:sdl="urn:sdl">
  <file original="a.txt" source-language="en-GB" datatype="plaintext">
    <body>
      <trans-unit id="1" xml:space="preserve">
        <source xml:space="preserve">Press <g id="1">the <x id="2"/> key</g> now</source>
      </trans-unit>
      <group translate="no">
        <trans-unit id="2"><source>NAME</source></trans-unit>
        <trans-unit id="3" translate="yes">
          <source><bpt id="1">[b]</bpt>Bold<ept id="1">[/b]</ept> <ph id="2">%s<sub>alt</sub></ph
          ></source>
          <target state="new"/>
          <note>a note</note>
        </trans-unit>
      </group>
      <trans-unit id="4" approved="yes">
        <source>Yes <g id="1">sir</g></source>
        <target state="final">Jawohl <g id="1">Herr</g></target>
        <alt-trans><source>No</source><target>Nein</target></alt-trans>
      </trans-unit>
      <trans-unit id="5">
        <source>One. Two.</source>
        <seg-source><g id="7"><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk
        ></g></seg-source>
        <sdl:seg-defs><sdl:seg id="1" conf="ApprovedTranslation"/></sdl:seg-defs>
      </trans-unit>
      <trans-unit id="6">
        <source>A <it id="1" pos="open">x</it> b</source>
        <target>Ein <ph id="9">y</ph> b</target>
      </trans-unit>
    </body>
  </file>
</xliff>
"""

NEW = """<?xml version="1.0"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
  <file id="f">
    <unit id="u1">
      <segment id="s1">
        <source>Click <pc id="1" dataRefStart="d1">here<ph id="2"/></pc>.</source>
      </segment>
      <ignorable><source> </source></ignorable>
      <segment id="s2" state="initial" subState="my:x">
        <source><sc id="3"/>Over<mrk id="m" type="term">lap</mrk><ec startRef="3"/> <cp
        hex="001b"/></source>
      </segment>
      <segment id="s3" state="final"><source>Done</source><target>Fertig</target></segment>
    </unit>
    <unit id="u2" translate="no"><segment><source>NAME</source></segment></unit>
    <unit id="u3"><segment><source>
      Two
      lines
    </source></segment></unit>
  </file>
</xliff>
"""
MEMORY = "urn:oasis:names:tc:xliff:document:1.2"


def read(text: str, src: str = "en", trg: str = "de") -> Xliff:
    return Xliff(text.encode(), "a.xlf", src, trg)


def canonical(data: bytes) -> bytes:
    return bytes(etree.tostring(etree.fromstring(data), method="c14n"))


def unit_of(data: bytes, number: str) -> str:
    """A unit as text, without namespaces."""
    unit = etree.fromstring(data).find(f".//{{*}}*[@id='{number}']")
    text = str(etree.tostring(unit, encoding="unicode", with_tail=False))
    return text.replace(' xmlns="urn:oasis:names:tc:xliff:document:1.2"', "").replace(
        ' xmlns="urn:oasis:names:tc:xliff:document:2.0"', ""
    )


def test_segments_of_1_2() -> None:
    segments = read(OLD).segments
    assert [shown(s.source) for s in segments] == [
        "Press <g 1>the <x 2/> key</g> now",
        "<bpt 1>Bold</ept> <ph 2/>",
        "Yes <g 1>sir</g>",
        "One.",
        "Two.",
        "A <it 1/> b",
    ]
    assert [s.target and shown(s.target) for s in segments] == [
        *(None, None, "Jawohl <g 1>Herr</g>", None, None, "Ein  b")
    ]
    assert [s.approved for s in segments] == [False, False, True, False, False, True]
    assert [s.sentence for s in segments] == [False, False, False, True, True, False]
    assert segments[0].place == "line 7, unit 1"


def test_segments_of_2() -> None:
    segments = read(NEW).segments
    assert [shown(s.source) for s in segments] == [
        "Click <pc 1>here<ph 2/></pc>.",
        "<sc 3>Over<mrk m>lap</mrk></ec> <cp/>",
        "Done",
        "Two⏎lines",
    ]
    assert [s.approved for s in segments] == [False, False, True, False]
    assert [s.sentence for s in segments] == [True, True, True, False]


def test_targets_of_1_2() -> None:
    document = read(OLD)
    first, second, *_ = (s.source for s in document.segments)
    moved: Content = (*first[1:-1], " drücken")
    data = document.write([moved, second, None, ("Eins.",), None, None])
    assert (
        '<target xml:space="preserve" state="needs-review-translation" '
        'state-qualifier="mt-suggestion"><g id="1">the <x id="2"/> key</g> drücken</target>\n'
    ) in unit_of(data, "1")
    assert "%s<sub>alt</sub></ph></target>\n          <note>" in unit_of(data, "3")
    assert (
        '<g id="7"><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2"/></g></target>'
    ) in unit_of(data, "5")
    assert unit_of(data, "4") == unit_of(OLD.encode(), "4")
    assert data.decode().startswith(OLD[: OLD.index("<xliff")])
    assert b'target-language="de"' in data
    assert data.endswith(b"</xliff>\n")


def approve(document: Xliff, *numbers: int) -> None:
    rows = enumerate(document.segments)
    document.segments = [replace(s, approved=True) if n in numbers else s for n, s in rows]


def test_what_a_person_approves_is_marked_and_approved_when_read_again() -> None:
    for text, count in ((OLD, 6), (NEW, 4)):
        document = read(text)
        rows = [None if s.approved else ("neu ", *s.source) for s in document.segments]
        by_machine = document.write(rows)
        made = read(by_machine.decode())
        assert [s.approved for s in made.segments] == [s.approved for s in document.segments]
        approve(made, *range(count))
        again = read(made.write([s.target for s in made.segments]).decode()).segments
        assert [s.approved for s in again] == [True] * count
        assert [s.target for s in again] == [s.target for s in made.segments]


CUT = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:sdl="urn:sdl">
<file original="a" source-language="en" target-language="de"><body><trans-unit id="1">
<source>One. Two. Three.</source>
<seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source>
<target><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2"/></target>
SEGS</trans-unit></body></file></xliff>"""
SEGS = '<sdl:seg-defs><sdl:seg id="1" conf="Translated"/><sdl:seg id="2"/></sdl:seg-defs>'


@pytest.mark.parametrize("segs", ["", SEGS])
def test_a_machine_s_segment_leaves_those_of_people_as_they_are(segs: str) -> None:
    document = read(CUT.replace("SEGS", segs))
    assert [s.approved for s in document.segments] == [True, False]
    once = read(document.write([None, ("Maschine.",)]).decode())
    assert [s.approved for s in once.segments] == [True, False]
    approve(once, 1)
    done = read(once.write([None, ("Zwei.",)]).decode())
    assert [(s.target, s.approved) for s in done.segments] == [
        (("Eins.",), True),
        (("Zwei.",), True),
    ]


def test_targets_of_2() -> None:
    document = read(NEW)
    data = document.write([s.source for s in document.segments[:2]] + [None, None])
    text = data.decode()
    assert '<segment id="s1" state="translated" subState="wholedoc:mt">' in text
    assert '<segment id="s2" state="translated" subState="wholedoc:mt">' in text
    assert '<target>Click <pc id="1" dataRefStart="d1">here<ph id="2"/></pc>.</target>' in text
    assert 'trgLang="de"' in text
    assert unit_of(data, "s3") == unit_of(NEW.encode(), "s3")


def test_what_a_person_changes_in_an_approved_segment_stays_approved() -> None:
    document = read(NEW)
    data = document.write([None, None, ("Erledigt",), None])
    assert '<segment id="s3" state="final"><source>Done</source><target>Erledigt</target>' in (
        data.decode()
    )


def test_halves_that_do_not_nest_stand_alone() -> None:
    text = OLD.replace(
        '<g id="1">the <x id="2"/> key</g>', '<bx id="1"/>a<bx id="2"/>b<ex id="1"/>c<ex id="2"/>'
    )
    assert shown(read(text).segments[0].source) == "Press <bx 1>a<bx 2/>b</ex>c<ex 2/> now"


def test_dialects_say_that_a_person_has_confirmed() -> None:
    text = OLD.replace('approved="yes"', 'xmlns:m="urn:m" m:confirmed="1"').replace(
        ' state="final"', ""
    )
    assert read(text).segments[2].approved
    assert not read(text.replace('m:confirmed="1"', 'm:confirmed="0"')).segments[2].approved


def test_what_is_approved_is_confirmed_in_the_words_of_its_tool() -> None:
    for said, done in (
        ('m:confirmed="0"', 'm:confirmed="1"'),
        ('m:status="Edited"', 'm:status="ManuallyConfirmed"'),
    ):
        text = OLD.replace('approved="yes"', f'xmlns:m="urn:m" {said}').replace(
            ' state="final"', ""
        )
        document = read(text)
        approve(document, 2)
        data = document.write([None, None, document.segments[2].target, None, None, None])
        assert done in unit_of(data, "4")
        assert read(data.decode()).segments[2].approved


def test_what_is_locked_stays() -> None:
    text = OLD.replace('approved="yes"', 'xmlns:m="urn:m" m:locked="true"')
    assert [plain(s.source) for s in read(text).segments][2:4] == ["One.", "Two."]
    cut = CUT.replace("SEGS", SEGS.replace('id="2"', 'id="2" locked="true"'))
    document = read(cut)
    assert [plain(s.source) for s in document.segments] == ["One."]
    assert b'<mrk mtype="seg" mid="2"/></target>' in document.write([("Erstens.",)])


def test_a_machine_s_text_is_no_match_of_a_memory() -> None:
    before = '<sdl:seg id="2" conf="Draft" origin="tm" percent="100" struct-match="true"/>'
    document = read(CUT.replace("SEGS", SEGS.replace('<sdl:seg id="2"/>', before)))
    data = document.write([None, ("Zwei.",)]).decode()
    assert '<sdl:seg id="2" conf="Draft" origin="mt"/>' in data


@pytest.mark.parametrize("code", ['<x id="9" ctype="lb"/>', '<ph id="9" subType="xlf:lb"/>'])
def test_words_around_the_end_of_a_line_are_two(code: str) -> None:
    document = read(OLD.replace("Press ", f"Press{code}"))
    assert plain(document.segments[0].source) == "Press the  key now"
    data = document.write([s.source if n == 0 else None for n, s in enumerate(document.segments)])
    target = unit_of(data, "1").partition("<target")[2]
    assert f"Press{code}" in target


@pytest.mark.parametrize(
    ("said", "stays"),
    [
        ("", True),
        (' state="translated"', True),
        (' state="needs-translation"', False),
        (' state="needs-review-translation" state-qualifier="mt-suggestion"', False),
        (' state="translated" state-qualifier="leveraged-mt"', False),
    ],
)
def test_a_translation_stays_unless_it_needs_work(said: str, stays: bool) -> None:
    before = '<target>Ein <ph id="9">y</ph> b</target>'
    text = OLD.replace(before, before.replace("<target", f"<target{said}"))
    assert read(text).segments[5].approved == stays
    source = 'A <it id="1" pos="open">x</it> b'
    copied = OLD.replace(before, f"<target{said}>{source}</target>")
    assert not read(copied).segments[5].approved, "a copy of the source is no translation"


@pytest.mark.parametrize(
    ("said", "stays"),
    [
        ("", True),
        (' state="translated"', True),
        (' state="initial"', False),
        (' state="translated" subState="wholedoc:mt"', False),
    ],
)
def test_a_translation_of_2_stays_unless_it_needs_work(said: str, stays: bool) -> None:
    text = NEW.replace(' state="final"', said)
    assert read(text).segments[2].approved == stays


def test_our_own_translations_are_made_anew() -> None:
    for text in (OLD, NEW):
        document = read(text)
        kept = [s.approved for s in document.segments]
        written = document.write(
            [None if s.approved else ("neu", *s.source) for s in document.segments]
        )
        assert [s.approved for s in read(written.decode()).segments] == kept


@pytest.mark.parametrize("text", [OLD, NEW, OLD.replace("\n", "\r\n")], ids=["1.2", "2.0", "crlf"])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_encodings(text: str, encoding: str) -> None:
    text = text.replace('encoding="UTF-8"', f'encoding="{encoding}"')
    if "encoding=" not in text:
        text = text.replace('<?xml version="1.0"?>', f'<?xml version="1.0" encoding="{encoding}"?>')
    data = text.encode(encoding)
    document = Xliff(data, "a.xlf", "en", "de")
    assert document.write([s.target for s in document.segments]) == data
    contents = [s.source for s in document.segments]
    written = document.write([("日",) if c == ("Done",) else c for c in contents])
    assert written.decode(encoding).startswith(text[: text.index("<xliff")])
    assert ("\r\n" in text) == ("\r\n" in written.decode(encoding))
    again = Xliff(written, "a.xlf", "en", "de").segments
    assert [s.target for s in again if s.source != ("Done",)] == [
        c for c in contents if c != ("Done",)
    ]


BOMB = '<!DOCTYPE xliff [<!ENTITY a "b">]><xliff version="1.2"/>'


@pytest.mark.parametrize(
    ("text", "what", "where", "fix"),
    [
        ("", "not well-formed", "a.xlf:1", "export"),
        ("<xliff>\n<file></xliff>", "not well-formed", "a.xlf:2", "export"),
        ("<tmx/>", "not XLIFF: its root is tmx", "a.xlf", "XLIFF"),
        (BOMB, "entities", "a.xlf", "text"),
        ('<!DOCTYPE xliff SYSTEM "x.dtd"><xliff>&a;</xliff>', "entities", "a.xlf", "text"),
        (OLD.replace("en-GB", "fr"), "source-language is fr, not en", "a.xlf:4", "languages"),
        (NEW.replace("srcLang", 'trgLang="it" srcLang'), "trgLang is it", "a.xlf:2", "languages"),
    ],
)
def test_bad_files(text: str, what: str, where: str, fix: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert what in error.value.what
    assert error.value.where == where
    assert fix in error.value.fix


def test_lost_tags_are_an_error() -> None:
    document = read(OLD)
    with pytest.raises(UserError, match="not the tags"):
        document.write([("text",), *[None] * 5])


def test_what_xml_cannot_have_is_left_out() -> None:
    document = read(NEW)
    assert b"<target>ab</target>" in document.write([None, None, ("a\x00\x0bb",), None])


TEXT = st.text("ab <&>é\n\r", max_size=8)


@st.composite
def inline(draw: Any, new: bool) -> str:
    """Text with inline elements; halves lie anywhere."""
    names = ("pc", "ph", "sc", "ec") if new else ("g", "x", "bx", "ex")
    reference = "startRef" if new else "rid"
    parts: list[str] = []
    for n in range(draw(st.integers(0, 5))):
        parts.append(_escaped(draw(TEXT)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            parts.append(f'<{names[0]} id="{n}">{_escaped(draw(TEXT))}<!--c--></{names[0]}>')
        elif kind < 3:
            parts.append(f'<{names[kind]} id="{n}"/>')
        else:
            parts.append(f'<{names[3]} {reference}="{draw(st.integers(0, n))}"/>')
    return "".join([*parts, _escaped(draw(TEXT))])


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


@st.composite
def files(draw: Any) -> str:
    """An XLIFF file."""
    new, units = draw(st.booleans()), []
    for n in range(draw(st.integers(1, 3))):
        target = f"<target>{draw(inline(new))}</target>" if draw(st.booleans()) else ""
        both = f"<source>{draw(inline(new))}</source>{target}"
        approved = draw(st.booleans())
        state = ' state="final"' * approved if new else ' approved="yes"' * approved
        if new:
            units.append(f'<unit id="{n}"><segment{state}>{both}</segment></unit>')
        else:
            units.append(f'<trans-unit id="{n}"{state}>{both}</trans-unit>')
    inner = "\n".join(units)
    if new:
        return f'<xliff version="2.0" srcLang="en"><file id="f">{inner}</file></xliff>'
    return f'<xliff version="1.2" xmlns="{MEMORY}"><file><body>{inner}</body></file></xliff>'


@given(files())
def test_targets_written_again_give_the_same_file(text: str) -> None:
    document = read(text)
    assert document.write([s.target for s in document.segments]) == text.encode()


@given(files())
def test_sources_written_as_targets_are_read_again(text: str) -> None:
    document = read(text)
    contents = [s.source for s in document.segments]
    data = document.write(contents)
    again = read(data.decode())
    assert [s.source for s in again.segments] == contents
    assert [s.target for s in again.segments] == contents
    assert canonical(again.write([s.target for s in again.segments])) == canonical(data)


@given(files(), st.data())
def test_what_is_written_is_read_again(text: str, data: st.DataObject) -> None:
    document = read(text)
    words = st.text("xyz<&é", min_size=1, max_size=8)
    contents = [
        normalised(data.draw(words) if isinstance(p, str) else p for p in s.source)
        for s in document.segments
    ]
    again = read(document.write(contents).decode())
    assert [s.target for s in again.segments] == contents
    assert [s.source for s in again.segments] == [s.source for s in document.segments]


@given(st.text('<xlifunt g/>="&;!', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    unit = f"<xliff><trans-unit><source>{text}</source></trans-unit></xliff>"
    for each in (text, unit, f"<!DOCTYPE xliff [{text}]><xliff/>"):
        try:
            document = read(each)
        except UserError:
            continue
        assert document.write([s.target for s in document.segments]) == each.encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for each in (data, b"<?xml version='1.0' encoding='" + data + b"'?><xliff/>"):
        try:
            found = Xliff(each, "a.xlf", "", "")
        except UserError:
            continue
        assert found.write([segment.target for segment in found.segments]) == each


def test_a_half_does_not_reach_out_of_an_element() -> None:
    text = OLD.replace("the <x", 'a<ex id="5"/>the <x').replace("Press ", 'Press <bx id="5"/>')
    assert shown(read(text).segments[0].source) == (
        "Press <bx 5/><g 1>a<ex 5/>the <x 2/> key</g> now"
    )


def test_white_space_around_a_source_is_around_its_target() -> None:
    data = read(NEW).write([None, None, None, read(NEW).segments[3].source])
    assert "<target>\n      Two\n      lines\n    </target>" in data.decode()


def test_a_target_comes_after_a_source_that_is_not_cut() -> None:
    text = (
        '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">'
        "<source>A</source><seg-source>A</seg-source><note>n</note>"
        "</trans-unit></body></file></xliff>"
    )
    (unit,) = etree.fromstring(read(text).write([("B",)])).iter("trans-unit")
    assert [child.tag for child in unit] == ["source", "seg-source", "target", "note"]


def test_halves_that_nest_without_end_are_read() -> None:
    opening = "".join(f'<bpt id="{n}"/>' for n in range(2000))
    closing = "".join(f'<ept id="{n}"/>' for n in reversed(range(2000)))
    text = (
        '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">'
        f"<source>{opening}A{closing}</source></trans-unit></body></file></xliff>"
    )
    (segment,) = read(text).segments
    placed = place_tags(segment.source, "B", find_units("B", [(0, 1, 0)]))
    assert (shown(placed).count("<bpt"), plain(placed)) == (2000, "B")
