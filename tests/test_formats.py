"""What all document formats share: segments, sentences, protected parts, where tags go."""

import itertools
import random
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wholedoc.errors import UserError
from wholedoc.formats import FORMATS, find_format, format_named, placing
from wholedoc.formats.placing import Unit, find_units, place_tags
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.protected import find_protected, is_text, missing_protected
from wholedoc.formats.segments import (
    Content,
    Tag,
    check_tags,
    normalised,
    plain,
    shown,
    tags_of,
)
from wholedoc.formats.sentences import split_sentences, without_signs


def parse(text: str) -> Content:
    """Content from a sketch: ``a <b>c</b> <x/> d``; ``⏎`` is the end of a line."""
    parts: list[str | Tag] = []
    ids: dict[str, int] = {}
    at = 0
    while at < len(text):
        if text[at] == "⏎":
            parts.append(Tag("alone", 100 + len(parts), "⏎", space=True))
            at += 1
        elif text[at] == "<":
            end = text.index(">", at) + 1
            name = text[at + 1 : end - 1]
            kind = "close" if name[0] == "/" else "alone" if name[-1] == "/" else "open"
            number = ids.setdefault(name.strip("/"), len(ids))
            parts.append(Tag(kind, number, text[at:end]))  # type: ignore[arg-type]
            at = end
        else:
            parts.append(text[at])
            at += 1
    return normalised(parts)


def units_of(text: str, origins: dict[str, int]) -> list[Unit]:
    """The units of a translation; words by their places in the source, others by none."""
    return [
        Unit(unit.start, unit.end, origins.get(text[unit.start : unit.end]))
        for unit in find_units(text, [])
    ]


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("Das <b>rote Haus</b> da", "The red house there", "The <b>red house</b> there"),
        ("<b>Das rote Haus da</b>", "The red house there", "<b>The red house there</b>"),
        ("Das <x/>rote Haus da", "There the red house", "There the <x/>red house"),
        ("Das rote<x/> Haus da", "The red house there", "The red<x/> house there"),
        ("Das rote <x/> Haus da", "The red house there", "The red <x/> house there"),
        ("<x/>Das rote Haus da", "There the red house", "<x/>There the red house"),
        ("Das rote Haus da<x/>", "There the red house", "There the red house<x/>"),
        (
            "<i>Das <b>rote</b> Haus</i> da",
            "There the red house",
            "There <i>the <b>red</b> house</i>",
        ),
        ("<b>Das</b> <i>rote</i> Haus da", "red the house", "<i>red</i> <b>the</b> house"),
        ("Das rote⏎Haus da", "The red house there", "The red⏎house there"),
        ("Das <b></b>rote Haus da", "The red house there", "The <b></b>red house there"),
        ("Das <x/>-Haus da", "The house there", "The <x/> house there"),
        ("Das Haus<x/>, da", "There the house", "There the house<x/>"),
        ("Das <b>rote</b> Haus da", "The house there", "The <b>house</b> there"),
        # white space is there where the source has it, though the translation has none
        ("Das Haus <x/> rote da", "red the house there", "<x/> red the house there"),
        ("Das Haus <x/> da", "the (there house)", "the (<x/> there house)"),
        ("Das Haus <x/>, da", "The house, there", "The house <x/>, there"),
        ("Das rote <x/> Haus.", "red.", "red. <x/>"),
        ("Das <x/> Haus da", "The  house there", "The <x/> house there"),
        ("<x/> Haus da", "house there", "<x/> house there"),
    ],
)
def test_tags_follow_their_words(source: str, translation: str, wanted: str) -> None:
    content = parse(source)
    text = plain(content)
    words = {"the": "Das", "The": "Das", "red": "rote", "house": "Haus", "there": "da"}
    words |= {"There": "da", ",": ","}
    origins = {word: text.index(origin) for word, origin in words.items() if origin in text}
    placed = place_tags(content, translation, units_of(translation, origins))
    assert shown(placed) == wanted
    check_tags(content, placed)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """Any content: words, spaces, nested pairs, tags alone, ends of lines."""
    generator = random.Random(draw(st.integers(0, 2**32)))
    parts: list[str | Tag] = []
    opened: list[Tag] = []
    for n in range(draw(st.integers(0, 25))):
        kind = generator.choice(["text", "text", "open", "close", "alone", "space"])
        if kind == "text":
            parts.append(generator.choice(["Wort", " ", ". ", "a", "zwei Worte", "ß", "  "]))
        elif kind == "open":
            opened.append(Tag("open", n, f"<{n}>"))
            parts.append(opened[-1])
        elif kind == "close" and opened:
            last = opened.pop()
            parts.append(Tag("close", last.id, f"</{last.id}>"))
        elif kind in ("alone", "space"):
            parts.append(Tag("alone", n, f"<{n}/>", space=kind == "space"))
    while opened:
        last = opened.pop()
        parts.append(Tag("close", last.id, f"</{last.id}>"))
    return normalised(parts)


@settings(max_examples=300, deadline=None)
@given(contents(), st.text("ab .,\u00e4\u4e2d", max_size=40), st.integers(0, 2**32))
def test_no_tag_is_lost_or_doubled_whatever_the_alignment(
    source: Content, translation: str, seed: int
) -> None:
    generator = random.Random(seed)
    length = len(plain(source))
    units = [
        Unit(u.start, u.end, generator.choice([None, generator.randint(0, length)]))
        for u in find_units(translation, [])
    ]
    placed = place_tags(source, translation, units)
    check_tags(source, placed)
    assert "".join(plain(placed).split()) == "".join(translation.split())
    order = [tag.id for tag in tags_of(placed) if tag.space]
    if all(tag.kind == "alone" for tag in tags_of(source)):
        assert order == [tag.id for tag in tags_of(source) if tag.space]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "_MOST_PLACED", -1)
        check_tags(source, place_tags(source, translation, units))


def test_very_many_tags_are_placed_by_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_MOST_PLACED", 7)
    text = "The red house there"
    placed = place_tags(parse("Das <b>rote Haus</b> <x/>da"), text, find_units(text, []))
    assert shown(placed) == "The <b>red house</b> <x/>there"


def test_wrong_tags_are_found() -> None:
    source = parse("a <b>c</b> <x/>")
    for wrong in ("a c <x/>", "a <b>c</b>", "a <b>c</b><x/><x/>", "a </b>c<b> <x/>"):
        with pytest.raises(UserError):
            check_tags(source, parse(wrong))
    check_tags(source, parse("<b>c</b> <x/> a"))


def test_no_tag_comes_into_a_placeholder() -> None:
    text = "open %s now"
    units = find_units(text, [])
    assert [text[unit.start : unit.end] for unit in units] == ["open", "%s", "now"]


def test_gaps_stay_between_words() -> None:
    source = b"1.  Kapitel  Eins:   Zwei."
    origins = {"1": 0, ".": 1, "Chapter": 3, "One": 11, ":": 15, "Two": 17}
    for text, wanted in {
        "1. Chapter One: Two.": "1.  Chapter  One:   Two.",
        "1. Chapter: Two.": "1.  Chapter:     Two.",
        "Chapter.": "Chapter.",
    }.items():
        document = PlainText(source, "a", "", "")
        words = re.finditer(r"\w+|[.:]", text)
        units = find_units(text, [(*match.span(), origins[match[0]]) for match in words])
        written = document.write([place_tags(document.segments[0].source, text, units)])
        assert written.decode().strip() == wanted


def test_the_last_cue_keeps_a_word() -> None:
    source = parse("eins zwei⏎drei vier")
    units = [Unit(u.start, u.end, 0) for u in find_units("one two three four", [])]
    placed = place_tags(source, "one two three four", units)
    assert shown(placed) == "one two three⏎four"


# Sentences.


def split(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("de", "Das gilt z. B. hier. Und hier?  Ja!", ["Das gilt z. B. hier.", "Und hier?", "Ja!"]),
        ("et", "See oli 3. mail. Hea.", ["See oli 3. mail.", "Hea."]),
        ("en", "Mr. Smith came.\nHe left.", ["Mr. Smith came.", "He left."]),
        ("", "One. Two.", ["One.", "Two."]),
        ("tlh", "nuqneH. Qapla'!", ["nuqneH.", "Qapla'!"]),
        ("de-AT", "Eins. Zwei.", ["Eins.", "Zwei."]),
        ("de", "Von www.Abc.org. Neu", ["Von www.Abc.org.", "Neu"]),
        ("de", "   ", []),
        ("de", "", []),
    ],
)
def test_sentences(language: str, text: str, sentences: list[str]) -> None:
    assert split(text, language) == sentences


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["de", "et", "en", "zh", "xx", ""]))
def test_splitting_loses_no_character(text: str, language: str) -> None:
    spans = split_sentences(text, language)
    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    rest = list(text)
    for start, end in spans:
        assert text[start:end] == text[start:end].strip()
        rest[start:end] = [" "] * (end - start)
    assert not "".join(rest).strip()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("weiter |", "weiter"),
        ("| • eins · zwei → |", "eins · zwei"),
        ("Debian\xa0»", "Debian"),
        ("« ici »", "« ici »"),
        ("»dort« »", "»dort« »"),
        ("|eins|", "|eins|"),
        ("| |", "| |"),
        ("|", "|"),
    ],
)
def test_signs_at_the_edges_of_a_sentence(text: str, sentence: str) -> None:
    start, end = without_signs(f"a {text} b", (2, 2 + len(text)))
    assert f"a {text} b"[start:end] == sentence


# What is not text.


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Siehe https://example.org/a?b=c.", ["https://example.org/a?b=c"]),
        ("(www.example.org)", ["www.example.org"]),
        ("an info@example.org, bitte", ["info@example.org"]),
        ("%s von %d (%1$s, %(name)s, %5.2f)", ["%s", "%d", "%1$s", "%(name)s", "%5.2f"]),
        ("{name}, {0}, {{ value }}, ${home}", ["{name}", "{0}", "{{ value }}", "${home}"]),
        ('Mit <x id="1"/> hier', ['<x id="1"/>']),
        ("in /usr/share/doc und $HOME", ["/usr/share/doc", "$HOME"]),
        ("Titel {#ein-anker} {: .art }", ["{#ein-anker}", "{: .art }"]),
        (
            '{% link "a" %} {{< bild src="b" >}} {# Dateien}',
            ['{% link "a" %}', '{{< bild src="b" >}}'],
        ),
        ("Option %r (%s.%s) 50%rabatt file:%d", ["%r", "%s", "%s", "%d"]),
        ("Siehe ~/.config/x.toml. In /etc/apt/.", ["~/.config/x.toml", "/etc/apt/"]),
        ("%PRODUCTNAME% %1", ["%PRODUCTNAME%", "%1"]),
        ("Mit $x_1 + y$ und $$E = mc^2$$.", ["$x_1 + y$", "$$E = mc^2$$"]),
        ("5 $ und 6 $, $10 = 9 $", []),
        ("50 % davon, 5 %igen, 100%.", []),
        ("und/oder, a < b > c", []),
        ("Nur {die rote Taste} {name} {{ name }}", ["{name}", "{{ name }}"]),
        (
            "Es {n, plural, =0 {gibt {keine}} one {ist # da} other {sind # da}} hier.",
            ["{n, plural, =0 {gibt {keine}} one {ist # da} other {sind # da}}"],
        ),
        ("{0,choice,0#keine|1#eine|1<viele {0}} da", ["{0,choice,0#keine|1#eine|1<viele {0}}"]),
        ("Auf {1>Speichern<1} und {b>{2}<b} hier", ["{1>", "<1}", "{b>", "{2}", "<b}"]),
    ],
)
def test_protected_parts(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in find_protected(text)] == parts


NO_TEXT = [
    "42",
    "3.14 %",
    "https://example.org",
    "%s: {name}",
    "—",
    "",
    "{n, plural, other {Wort}}",
]


@pytest.mark.parametrize("text", NO_TEXT)
def test_not_text(text: str) -> None:
    assert not is_text(text)
    assert is_text(f"{text} Wort")


def test_missing_protected_parts_are_counted() -> None:
    assert missing_protected("%s und %s", "%s and %s") == []
    assert missing_protected("%s und %s", "%s and") == [(7, 9)]
    assert missing_protected("Wert %d", "value %dred") == [(5, 7)]


# Plain text.


def texts() -> st.SearchStrategy[str]:
    words = st.sampled_from(["Ein", "Wort", "hier.", "\t", "  ", "\u00e4", "und so weiter"])
    line = st.lists(words, max_size=12).map(" ".join)
    ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n \n"])
    return st.lists(st.tuples(line, ends), max_size=10).map(
        lambda rows: "".join(line + end for line, end in rows)
    )


@settings(max_examples=200, deadline=None)
@given(texts() | st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_text_comes_back_byte_by_byte(text: str, encoding: str) -> None:
    assume(not text.startswith("\0"))  # after the mark of UTF-16 it makes that of UTF-32
    data = text.encode(encoding, "replace")
    document = PlainText(data, "a.txt", "", "")
    assert document.write([segment.source for segment in document.segments]) == data
    assert document.write([None] * len(document.segments)) == data


def test_lines_are_paragraphs_but_where_they_were_broken_to_a_width() -> None:
    lines = "Title\n\nFirst line here.\nSecond line here.\n"
    found = [shown(s.source) for s in PlainText(lines.encode(), "a", "", "").segments]
    assert found == ["Title", "First line here.", "Second line here."]
    wrapped = (
        "  A paragraph that was broken to a width of about sixty columns and\n"
        "  goes on here until it ends with a line that is shorter than all the\n"
        "  others.\n"
        "\n"
        "  Another one, which is just as wide as the first one was and which\n"
        "  ends here.\n"
    )
    document = PlainText(wrapped.encode(), "a", "", "")
    found = [shown(s.source) for s in document.segments]
    assert [text.count("⏎") for text in found] == [2, 1]
    assert [segment.place for segment in document.segments] == ["line 1", "line 5"]


def test_columns_are_paragraphs_and_other_gaps_are_tags() -> None:
    document = PlainText(b"  -      Remove it.  Now   !\tc\n     d\n", "a", "", "")
    assert [plain(segment.source) for segment in document.segments] == [
        *("-", "Remove it. Now !", "c", "d"),
    ]
    first, second = tags_of(document.segments[1].source)
    written = document.write([None, ("a", second, "b", first, "c"), ("e",), None])
    assert written == b"  -      a   b  c\te\n     d\n"
    many = PlainText(b"a  b " * 600 + b"c", "a", "", "").segments
    assert tags_of(many[0].source) == []


def test_translated_text_keeps_the_rest() -> None:
    document = PlainText("  Eins.\r\n\r\nZwei.".encode("utf-16"), "a", "", "")
    written = document.write([("One.",), ("Two.",)])
    assert written.decode("utf-16") == "  One.\r\n\r\nTwo."
    assert written.startswith(b"\xff\xfe")


def test_what_is_not_utf_8_is_named_with_its_line() -> None:
    with pytest.raises(UserError) as error:
        PlainText(b"eins\nzw\xffei", "a.txt", "", "")
    assert "a.txt:2" in str(error.value)
    assert "UTF-8" in str(error.value)


# Formats.


def test_formats_are_found_by_ending_and_name() -> None:
    endings = [ending for each in FORMATS for ending in each.endings]
    assert len(set(endings)) == len(endings)
    for each in FORMATS:
        assert format_named(each.name) is each
        assert all(find_format(f"a{ending.upper()}") is each for ending in each.endings)
    assert find_format("news.et") is None
    with pytest.raises(UserError, match="is no format"):
        format_named("pdf")
