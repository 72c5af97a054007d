"""Markdown: what is text and what is a tag, and that a file comes back byte for byte."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.formats.markdown import Markdown
from wholedoc.formats.segments import (
    Content,
    check_tags,
    normalised,
    plain,
    shown,
    tags_of,
)


def read(text: str) -> Markdown:
    return Markdown(text.encode(), "file", "", "")


def texts(text: str) -> list[str]:
    return [shown(segment.source) for segment in read(text).segments]


def translated(text: str, *translations: Content | None) -> str:
    return read(text).write(translations).decode()


def with_text(text: str, new: str) -> str:
    """The file with the one text of its one segment replaced."""
    (segment,) = read(text).segments
    return translated(text, tuple(new if isinstance(p, str) else p for p in segment.source))


def check_identity(text: str) -> Markdown:
    document = read(text)
    for segment in document.segments:
        check_tags(segment.source, segment.source)
    assert document.write([s.source for s in document.segments]) == text.encode()
    assert document.write([None] * len(document.segments)) == text.encode()
    return document


# Blocks.


def test_blocks_are_segments() -> None:
    text = (
        "# A #\n\nB\nb\n===\n\n> C\nc\n\n- D\n\n  d\n  - E\n\n1. F\n\n"
        "| G | H \\| h |\n|---|:-:|\n| I |\n\n"
    )
    found = ["A", "B⏎b", "C⏎c", "D", "d", "E", "F", "G", "H | h", "I"]
    assert texts(text) == found
    assert [s.place for s in read(text).segments][:3] == ["line 1", "line 3", "line 7"]
    assert check_identity(text).not_located == 0


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: A\nlist:\n- b\n---\n",
        "---\n# c\n\nx: |\n  a\n...\n",
        "```py\na\n```\n",
        "~~~\na\n",
        "    code\n",
        "<div>\n<!-- a -->\n</div>\n",
        "[a]: http://b 'c'\n",
        "***\n",
        "![](a.png)\n",
        "`code`\n",
    ],
)
def test_what_is_no_text_stays(text: str) -> None:
    assert texts(text) == []
    check_identity(text)


def test_blocks_of_html_are_read_as_pages_are() -> None:
    text = (
        "# A\n\n<details>\r\n<summary>B <b>C</b></summary>\n\nD\n\n</details>\n\n"
        '<script>\nx = "no"\n</script>\n\n- E\n\n  <p title="F">\n  G</p>\n\n'
        "> <p>in a quote it stays</p>\n\n<!-- no -->\n"
    )
    file = read(text)
    assert [(shown(each.source), each.place) for each in file.segments] == [
        ("A", "line 1"), ("B <b>C</b>", "line 4"), ("D", "line 6"),
        ("E", "line 14"), ("F", "line 16"), ("G", "line 17"),
    ]  # fmt: skip
    lower = [
        tuple(part.lower() if isinstance(part, str) else part for part in each.source)
        for each in file.segments
    ]
    expected = text
    for letter in "BCDEFG":
        expected = re.sub(rf"\b{letter}\b", letter.lower(), expected)
    assert file.write(lower).decode() == expected.replace("# A", "# a")
    page = read('<meta charset="latin-1">\n<p>ü €</p>')  # it is UTF-8, as all of the file
    assert page.write([("ö €",)]).decode() == '<meta charset="latin-1">\n<p>ö €</p>'


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("::: warning\nBeware\n:::", ["::: warning", "⏎", "⏎", ":::"]),
        ('!!! note "Title"\n    Beware', ["!!! note ", "⏎"]),
        ("Term\n: What it means", [": "]),
        ("Note: this. Oh!!! note", []),
    ],
)
def test_marks_that_begin_lines_in_dialects_are_tags(text: str, read_as: list[str]) -> None:
    found = [tag for segment in read(text).segments for tag in tags_of(segment.source)]
    assert [tag.shown for tag in found] == read_as


def test_a_rule_is_no_front_matter() -> None:
    assert texts("---\n\ntext\n\n---\n") == ["text"]
    assert texts("---\na: b\n---\ntext\n") == ["text"]


def test_front_matter_of_hugo() -> None:
    assert texts('+++\ntitle = "a"\ndraft = false\n+++\n\ntext\n') == ["text"]
    assert texts("+++\n+++\ntext\n") == ["text"]
    assert texts('{\n  "title": "a",\n  "b": {"c": 1}\n}\n\ntext\n') == ["text"]
    assert texts("{ a }\n\ntext\n") == ["{ a }", "text"]


@pytest.mark.parametrize(
    ("text", "content", "place"),
    [
        ("# # #\n", "#", 2),
        ("# a # \n", "a", 2),
        ("## a#\n", "a#", 3),
        ("> a | b |\n> -|-\n> c|d\n", "a", 2),
        ("- | -x | -x |\n  |-|-|\n", "-x", 4),
    ],
)
def test_blocks_are_found_in_their_lines(text: str, content: str, place: int) -> None:
    assert texts(text)[0] == content
    others = [None] * (len(read(text).segments) - 1)
    assert translated(text, ("Z",), *others) == text[:place] + "Z" + text[place + len(content) :]


def test_line_ends_and_prefixes_come_back() -> None:
    check_identity("> a\r\n> b\r\n>\r\n> - c\r\n>   d\r\r# e\0f\r\n\tx\n- \tg\n\th\n")
    text = "> one\r\n> two"
    _, tag, _ = read(text).segments[0].source
    assert translated(text, ("x", tag, "y")) == "> x\r\n> y"


# Tags.


def test_emphasis_and_links_are_pairs() -> None:
    text = 'a *b* __c__ ~~d~~ [e *f*](g "h") [i][j] [j] [j][]\n\n[j]: k\n'
    kinds = [tag.kind for tag in tags_of(check_identity(text).segments[0].source)]
    assert kinds.count("open") == kinds.count("close") == 8
    assert "alone" not in kinds
    assert [tag.shown for tag in tags_of(read(text).segments[0].source)][9:10] == ['](g "h")']


def test_code_pictures_addresses_and_html_stand_alone() -> None:
    text = "a `b` ![c](d) <http://e.f> <b>g</b> [^1] h\n"
    content = check_identity(text).segments[0].source
    assert [tag.shown for tag in tags_of(content)] == [
        "`b`", "![c](d)", "<http://e.f>", "<b>", "</b>", "[^1]",
    ]  # fmt: skip
    assert plain(content) == "a    g  h"


def test_breaks_stand_for_white_space() -> None:
    content = check_identity("a  \nb\\\nc \t\n d\n").segments[0].source
    assert plain(content) == "a b c d"
    assert all(tag.space for tag in tags_of(content))
    content = check_identity("*a*\t b\t\nc\n").segments[0].source
    assert [tag.kind for tag in tags_of(content)] == ["open", "close", "alone"]


def test_descriptions_of_pictures_are_segments() -> None:
    text = (
        "a ![b c](d 'e') f\n\n[![g](h)](i)\n\n|![j][k]|![l\\_m](n)|\n|-|-|\n\n"
        "![k] ![k][] ![*o*](p) ![](q)\n\n[k]: r\n"
    )
    assert texts(text) == ["a ![b c](d 'e') f", "b c", "g", "j", "l_m"]
    check_identity(text)
    written = translated(text, None, ("x]",), ("y",), ("u|v",), ("*w*",))
    assert written == (
        "a ![x\\]](d 'e') f\n\n[![y](h)](i)\n\n|![u\\\\|v][k]|![\\*w\\*](n)|\n|-|-|\n\n"
        "![k] ![k][] ![*o*](p) ![](q)\n\n[k]: r\n"
    )
    assert texts(written)[1:] == ["x]", "y", "u|v", "*w*"]
    listed = translated("- ![a&#124;b](u)\n---\n", ("One|two",))
    assert texts(listed) == ["One|two"]
    above_a_line = translated("![i](u)\n---\n", ("a|b &#124;",))
    assert above_a_line == "![a&#124;b \\&#124;](u)\n---\n"
    assert texts(above_a_line) == ["a|b &#124;"]


def test_a_backslash_after_white_space_ends_a_line() -> None:
    content = check_identity("a `b` \\\n  [c](d)\n").segments[0].source
    assert [tag.shown for tag in tags_of(content)] == ["`b`", "⏎", "[", "](d)"]
    assert with_text("*a* \\\nb\n", "x") == "*x* \\\nx\n"


def test_boxes_of_tasks_and_footnotes() -> None:
    assert [tag.shown for tag in tags_of(read("- [x] a[^b]\n").segments[0].source)] == [
        "[x]", "[^b]",
    ]  # fmt: skip
    assert plain(read("[^1]: Some note\n").segments[0].source) == " Some note"


def test_a_link_keeps_its_definition() -> None:
    text = "[Home], [Home][]\n\n[home]: x\n"
    a, _, b, comma, c, _, d = read(text).segments[0].source
    assert translated(text, (a, "Heim", b, comma, c, "Home", d)) == (
        "[Heim][Home], [Home][]\n\n[home]: x\n"
    )


# Characters.


def test_characters_are_written_as_they_were() -> None:
    text = "snake_case 2 * 3 \\* &uuml; &amp; a\\b < x\n"
    assert plain(check_identity(text).segments[0].source) == "snake_case 2 * 3 * ü & a\\b < x"
    assert with_text(text, "ü_ü & < y") == "&uuml;_&uuml; &amp; < y\n"


@pytest.mark.parametrize(
    ("new", "written"),
    [
        ("*a*", "\\*a\\*"),
        ("_a_b", "\\_a_b"),
        ("`a`", "\\`a\\`"),
        ("[a](b)", "\\[a\\](b)"),
        ("<b>", "\\<b>"),
        ("a\\*", "a\\\\\\*"),
        ("&amp; & b", "\\&amp; & b"),
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("+ a", "\\+ a"),
        ("> a", "\\> a"),
        ("1. a", "1\\. a"),
        ("12) a", "12\\) a"),
        ("1.5 a-b #c ~5", "1.5 a-b #c ~5"),
        ("~~a~~", "\\~\\~a\\~\\~"),
        ("---", "\\---"),
        ("===", "\\==="),
    ],
)
def test_new_text_makes_no_markup(new: str, written: str) -> None:
    assert with_text("x\n", new) == written + "\n"
    assert plain(read(written).segments[0].source) == new


def test_a_mark_that_would_now_be_markup_is_escaped() -> None:
    assert with_text("a * b * c\n", "*b*") == "\\*b\\*\n"
    assert with_text("2 _ 3\n", "_a_") == "\\_a\\_\n"
    text = "one\ntwo\n"
    _, tag, _ = read(text).segments[0].source
    for line in ("===", "- x", "# x", "> x", "1. x", "---|---", "```"):
        written = translated(text, ("one", tag, line))
        assert [plain(s.source) for s in read(written).segments] == [f"one {line}"]


def test_a_cell_keeps_its_bars() -> None:
    text = "|a|\n|-|\n|b|\n"
    written = translated(text, ("x|y",), ("z\\",))
    assert written == "|x\\|y|\n|-|\n|z\\\\ |\n"
    assert texts(written) == ["x|y", "z\\"]


def test_a_bar_above_a_line_makes_no_table() -> None:
    assert with_text("a\n---\n", "|x") == "&#124;x\n---\n"
    assert with_text("a\n---\n", "x\\|y") == "x\\\\&#124;y\n---\n"


def test_an_exclamation_before_a_link_makes_no_picture() -> None:
    text = "Hi [a](b)\n"
    _, *link = read(text).segments[0].source
    assert texts(translated(text, ("Hi!", *link))) == ["Hi![a](b)"]
    assert translated(text, ("Hi!", *link)) == "Hi\\![a](b)\n"


# Emphasis.


def test_white_space_moves_out_of_emphasis() -> None:
    text = "a **b** c\n"
    _, start, _, end, _ = read(text).segments[0].source
    assert translated(text, ("a", start, " b ", end, "c")) == "a **b** c\n"
    assert translated(text, ("a ", start, end, "c")) == "a c\n"
    assert translated(text, ("a ", start, "  ", end, "c")) == "a   c\n"


def test_emphasis_inside_a_word_is_still_emphasis() -> None:
    text = "a _b_ c\n"
    _, start, _, end, _ = read(text).segments[0].source
    assert translated(text, ("a", start, "b", end, "c")) == "a*b*c\n"
    assert translated(text, ("a", start, "b.", end, "c")) == "a<em>b.</em>c\n"


def test_two_pieces_of_code_do_not_become_one() -> None:
    text = "`a` und `b` oder *c*`d`.\n"
    (segment,) = read(text).segments
    first, second, opening, closing, last = tags_of(segment.source)
    out = translated(text, (first, second, opening, "c", closing, last, " and or."))
    assert out == "`a` `b`*c*`d` and or.\n"
    again = [tag.shown for tag in tags_of(read(out).segments[0].source)]
    assert again == ["`a`", "`b`", "*", "*", "`d`"]


def test_a_line_ends_after_emphasis_and_a_space() -> None:
    text = "*a*\nb c\n"
    (segment,) = read(text).segments
    opening, closing, end = tags_of(segment.source)
    assert translated(text, (opening, "x", closing, " ", end, "y")) == "*x*\ny\n"
    assert translated(text, (" ", end, opening, "x", closing, "y")) == "*x*y\n"


def test_a_paragraph_may_begin_with_the_end_of_a_line() -> None:
    check_identity("\\\n*\n")
    check_identity("a\n\\\n\\\nb\n")


def test_a_control_character_is_no_white_space() -> None:
    check_identity("*0\x1f* *\x1ca*\n")


def test_emphasis_that_nests_without_end_is_text() -> None:
    text = "*" * 3001 + "a" + "*" * 3001 + "\n"
    (segment,) = check_identity(text).segments
    assert segment.source == (text.strip(),)


def test_an_empty_link_stays() -> None:
    _, start, _, end = read("a [b](c)").segments[0].source
    assert translated("a [b](c)", ("a ", start, end)) == "a [](c)"


def test_no_end_of_a_line_ends_the_paragraph() -> None:
    text = "# T\n\na\nb\nc\n"
    _, one, _, two, _ = read(text).segments[1].source
    assert translated(text, None, ("x", one, two, "y")) == "# T\n\nx\ny\n"
    assert translated(text, None, (one, "x y", two)) == "# T\n\nx y\n"


# Any file at all.

WORDS = st.sampled_from(
    [
        "word",
        "snake_case",
        "&amp;",
        "&uuml;",
        "ü",
        "a < b",
        "2 * 3",
        "\\*",
        "語",
        "a\\b",
        "R&D",
        "!",
    ]
)
INLINE = st.recursive(
    st.one_of(WORDS, st.sampled_from([" ", "  ", "`c`", "![i](u)", "<b>", "[r]", "<x@y.z>", "\t"])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        inner.map(lambda text: f"*{text}*"),
        inner.map(lambda text: f"__{text}__"),
        inner.map(lambda text: f"~~{text}~~"),
        inner.map(lambda text: f'[{text}](u "t")'),
    ),
    max_leaves=8,
)
LINES = st.lists(INLINE, min_size=1, max_size=3).map("\n".join)


def indent(first: str, other: str, text: str) -> str:
    return first + text.replace("\n", "\n" + other)


BLOCKS = st.recursive(
    st.one_of(
        LINES,
        INLINE.map(lambda text: f"## {text} ##"),
        LINES.map(lambda text: f"{text}\n---"),
        st.tuples(INLINE, INLINE).map(lambda two: f"|{two[0]}|{two[1]}|\n|-|-|\n|{two[1]}|x"),
        st.sampled_from(["```\na\n```", "    code", "<div>\na\n</div>", "***", "[r]: u"]),
    ),
    lambda inner: st.one_of(
        inner.map(lambda text: indent("> ", "> ", text)),
        inner.map(lambda text: indent("- ", "  ", text)),
        inner.map(lambda text: indent("1. ", "\t", text)),
        st.lists(inner, min_size=1, max_size=3).map("\n\n".join),
    ),
    max_leaves=5,
)
BROKEN = st.lists(
    st.one_of(
        st.sampled_from(list("*_`[]()<>#-+=|~!\\&;:1. \t\n\r>")),
        st.sampled_from(["**", "](", "\n> ", "\n- ", "  \n", "&amp;", "a", "\\|", "[a]: b\n"]),
        st.text(max_size=3),
    ),
    max_size=30,
).map("".join)


@given(BLOCKS)
@settings(max_examples=300, deadline=None)
def test_any_file_comes_back(text: str) -> None:
    assert check_identity(text).not_located == 0
    check_identity(text.replace("\n", "\r\n"))


@given(BROKEN)
@settings(max_examples=500, deadline=None)
def test_any_text_comes_back(text: str) -> None:
    check_identity(text)


@given(BLOCKS, st.data())
@settings(max_examples=200, deadline=None)
def test_translations_are_read_again(text: str, data: st.DataObject) -> None:
    document = read(text)
    new_text = st.text(st.sampled_from("*_`[]()<>#-+=|~!\\&;:1. abü語"), min_size=1, max_size=8)
    translations = [
        normalised(
            "x" + data.draw(new_text) + "x" if isinstance(p, str) else p for p in segment.source
        )
        for segment in document.segments
    ]
    again = read(document.write(translations).decode())
    assert [plain(s.source) for s in again.segments] == [plain(t) for t in translations]


ANY_TEXT = st.text(st.sampled_from("*_`[]()<>#-+=|~!\\&;:1. abü語"), min_size=1)
SHAPES = st.sampled_from(
    ["{}\n", "# {}\n", "{}\n===\n", "{}\n---\n", "- {}\n", "> {}\n", "|{}|\n|-|\n"]
)


@given(ANY_TEXT.filter(str.strip), SHAPES)
@settings(max_examples=500, deadline=None)
def test_any_new_text_is_read_again(new: str, shape: str) -> None:
    written = translated(shape.format("old"), (new,))
    found = [plain(s.source) for s in read(written).segments]
    assert found == [new.strip()]


@pytest.mark.parametrize("shape", ["- {}\n", "{}\n", "* {}\n", "> {}\n", "1. {}\n"])
@pytest.mark.parametrize("text", ["--", "---", "- -", "-", "-- a", "+", "* *", "__"])
def test_dashes_alone_are_text_in_every_block(shape: str, text: str) -> None:
    written = Markdown(shape.format("Wort").encode(), "a.md", "", "").write([(text,)])
    assert [plain(s.source) for s in Markdown(written, "a.md", "", "").segments] == [text]


def test_notes_and_definitions_are_paragraphs_of_their_own() -> None:
    """Whatever stands before them; a note of one word is no address of a link."""
    text = "Save[^1] it.\n\n[^1]: Ctrl+S\n[^2]: See\nabove.\n\nTerm\n: One.\n: Two.\n\n[x]: y\n"
    file = read(text)
    found = [plain(segment.source).strip() for segment in file.segments]
    assert found == ["Save it.", "Ctrl+S", "See above.", "Term", "One.", "Two."]
    assert file.write([segment.source for segment in file.segments]).decode() == text
    upper = [tuple(p.upper() if isinstance(p, str) else p for p in s.source) for s in file.segments]
    written = file.write(upper).decode()
    assert written == text.upper().replace("[X]: Y", "[x]: y")
