"""HTML: what is text and what is a tag, and that a page comes back byte for byte."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.formats.html import Html
from wholedoc.formats.segments import (
    Content,
    Segment,
    Tag,
    check_tags,
    normalised,
    plain,
    shown,
    tags_of,
)


def read(text: str | bytes, src: str = "", trg: str = "") -> Html:
    return Html(text if isinstance(text, bytes) else text.encode(), "page", src, trg)


def texts(text: str | bytes) -> list[str]:
    return [shown(segment.source) for segment in read(text).segments]


def upper(segment: Segment) -> Content:
    return tuple(p.upper() if isinstance(p, str) else p for p in segment.source)


def translated(text: str, *translations: Content | None) -> str:
    return read(text).write(translations).decode()


def check_identity(data: bytes) -> Html:
    page = Html(data, "page", "", "")
    for segment in page.segments:
        check_tags(segment.source, segment.source)
    assert page.write([segment.source for segment in page.segments]) == data
    assert page.write([None] * len(page.segments)) == data
    return page


# What is a segment.


def test_blocks_are_segments() -> None:
    page = "<title>T</title><h1>A</h1><div>B<p>C</div><ul><li>D<li>E</ul><td>F<th>G<dt>H<dd>I"
    assert texts(page) == list("TABCDEFGHI")


def test_a_fragment_is_a_segment() -> None:
    assert texts("Hello <b>world</b>!") == ["Hello <b>world</b>!"]


def test_what_is_no_text_is_one_tag_or_nothing() -> None:
    assert texts("Run <code>make <b>x</b></code> now") == ["Run <code>make <b>x</b></code> now"]
    content = read("Run <code>make <b>x</b></code> now").segments[0].source
    assert [tag.kind for tag in tags_of(content)] == ["alone"]
    assert texts("<pre>a <b>b</b></pre><script>if (a<b) '<p>x</p>'</script><style>p</style>") == []
    assert texts("<svg><text>b</text></svg>") == []
    assert texts('<div translate="no">a<div>b</div></div><p class="x notranslate">c</p>d') == ["d"]
    assert texts("<ul><li translate=no>a<li>b</ul>") == ["b"]
    assert plain(read('I am <span translate="no">Bo</span>.').segments[0].source) == "I am ."


def test_what_is_marked_inside_what_is_no_text_is_text() -> None:
    page = (
        '<div translate="no">a <p>b<p translate=yes>c <b>d</b><code>e</code></p>f'
        '<ul><li translate="YES" title="g">h <i translate=no>i</i></li></ul>j</div>k'
    )
    assert texts(page) == ["c <b>d</b><code>e</code>", "g", "h <i translate=no>i</i>", "k"]
    check_identity(page.encode())
    found = texts("<div translate=no><p translate=yes>a<b translate=no>b</p></div>c</b>d")
    assert found == ["a<b translate=no>b</p></div>c</b>", "d"]
    assert texts("<div translate=no><p translate=yes>a</div></p>b") == ["b"]  # it ends too late
    levels = "<div translate=no><div translate=yes>", "</div></div>"
    assert texts(levels[0] * 90 + "a" + levels[1] * 90) == ["a"]
    assert texts(levels[0] * 20_000 + "a" + levels[1] * 20_000) == []


def test_a_link_on_a_sign_stands_alone() -> None:
    page = '<h1>A<a href="#a" title="b">&para;</a></h1><a>&nbsp;#</a><p><a>1</a> <a>c</a> <b>!</b>'
    assert texts(page) == ['A<a href="#a" title="b">&para;</a>', "b", "<a>1</a> <a>c</a> <b>!</b>"]
    assert [tag.kind for tag in tags_of(read(page).segments[0].source)] == ["alone"]
    assert texts('<a><img alt="d"></a> <a> <!-- x --></a>') == ["d"]
    check_identity(page.encode())


def test_the_text_of_a_field_is_a_segment() -> None:
    page = 'a <textarea placeholder="b">\n c &lt;/textarea> </p>\nd</textarea> e'
    segments = read(page).segments
    assert [plain(segment.source) for segment in segments] == ["a  e", "b", "c </textarea> </p> d"]
    check_identity(page.encode())
    end = tags_of(segments[2].source)[0]
    written = translated(page, None, None, ("</p>", end, "</textarea>"))
    assert written == page.replace("c &lt;/textarea> </p>\nd", "&lt;/p&gt;\n&lt;/textarea&gt;")
    assert texts("<textarea></textarea><textarea>a") == []
    closed = '<p><textarea name="a"/><input\n type="text" name="b"/> </p>'
    assert (texts(closed), len(read(closed).segments)) == ([], 0)
    assert texts("<textarea translate=no placeholder=a>b</textarea>") == []


def test_attributes_that_people_read_are_segments() -> None:
    page = (
        '<meta name="description" content="A"><meta name="viewport" content="no">'
        '<meta property="og:title" content=B><p>C <img src="x.png" alt="D" title=\'E\'> F'
        '<input placeholder="G" value="no"><a aria-label="H" href="no">I</a>'
    )
    found = texts(page)
    assert [each for each in found if len(each) == 1] == list("ABDEGH")
    assert len(found) == 7


def test_attributes_that_people_read_in_some_elements_alone() -> None:
    page = (
        '<input type=submit value="A"><input type="RESET" value="B"><input type=text value="no">'
        '<select><optgroup label="C"><option label="D" value="no">E</select><li value="no">F'
        '<video><track label="G"></video><div label="no">H</div><p aria-description="I">'
        '<table summary="J"><tr><th abbr="K">L<td abbr="no">'
    )
    assert sorted(texts(page)) == list("ABCDEFGHIJKL")


def test_attributes_inside_a_segment_are_translated_with_it_and_without() -> None:
    page = '<p>Look: <img alt="a dog" src=x> there'
    segments = read(page).segments
    both = translated(page, upper(segments[0]), upper(segments[1]))
    assert both == '<p>LOOK: <img alt="A DOG" src=x> THERE'
    assert translated(page, None, upper(segments[1])) == '<p>Look: <img alt="A DOG" src=x> there'
    assert translated(page, upper(segments[0]), None) == '<p>LOOK: <img alt="a dog" src=x> THERE'


def test_attributes_of_what_is_no_text_are_none() -> None:
    assert texts('<code><a title="x">b</a></code><img translate="no" alt="c">') == []


# Tags.


def kinds(page: str) -> list[tuple[str, int]]:
    return [(tag.kind, tag.id) for tag in tags_of(read(page).segments[0].source)]


def test_elements_that_nest_are_pairs() -> None:
    found = kinds("a <b>b <i>c</i></b> d")
    assert [kind for kind, _ in found] == ["open", "open", "close", "close"]
    assert found[0][1] == found[3][1] != found[1][1] == found[2][1]


def test_elements_that_do_not_nest_stand_alone() -> None:
    assert [kind for kind, _ in kinds("a <b>b <i>c</b> d</i> e")] == [
        "open", "alone", "close", "alone",
    ]  # fmt: skip
    assert [kind for kind, _ in kinds("a </b> b <i> c")] == ["alone", "alone"]
    assert [kind for kind, _ in kinds("a <b>b<p>c</b>")] == ["alone"]


def test_void_elements_and_comments_stand_alone() -> None:
    page = "a <img src=x> b<wbr>c <input> d <!-- e --> f <br> g <x-y/> h"
    assert {kind for kind, _ in kinds(page)} == {"alone"}
    assert len(kinds(page)) == 6


def test_nesting_has_an_end() -> None:
    found = [kind for kind, _ in kinds("a " + "<b>" * 150 + "x" + "</b>" * 150 + " b")]
    assert (found.count("open"), found.count("close"), found.count("alone")) == (100, 100, 100)


def test_a_br_between_words_is_white_space() -> None:
    assert plain(read("one<br>two").segments[0].source) == "one two"
    assert plain(read("one <br>two").segments[0].source) == "one two"
    assert plain(read("one<br>\ntwo").segments[0].source) == "one two"


# White space.


def test_ends_of_lines_are_tags_and_edges_stay_outside() -> None:
    page = "<p>\n  one\n   two  three&nbsp;\n</p>"
    content = read(page).segments[0].source
    assert content == ("one", Tag("alone", 1, "⏎", space=True), "two  three")
    swapped = normalised(["x", content[1], "y"])
    assert translated(page, swapped) == "<p>\n  x\n   y&nbsp;\n</p>"


def test_breaks_and_comments_at_the_edge_stay_outside() -> None:
    assert texts("<p><br><!-- x -->a <b>b</b><br></p>") == ["a <b>b</b>"]


# Characters.


def test_entities_are_read_and_written_as_they_were() -> None:
    page = "<p>R&amp;D &uuml;ber&nbsp;x &lt;b&gt; &#228; > &copy2024"
    content = read(page).segments[0].source
    assert content == ("R&D über\xa0x <b> ä > ©2024",)
    assert translated(page, ("ü ü ä <i> &",)) == "<p>&uuml; &uuml; &#228; &lt;i&gt; &amp;"


def test_bare_marks_stay_bare_only_where_they_read_the_same() -> None:
    page = "<p>AT&T a < b"
    assert read(page).segments[0].source == ("AT&T a < b",)
    assert translated(page, ("X&Y c < d",)) == "<p>X&Y c < d"
    assert translated(page, ("X &amp; <b>",)) == "<p>X &amp;amp; &lt;b&gt;"


def test_a_bare_mark_makes_no_tag_with_what_follows() -> None:
    page = "<p>a < b\nc > d"
    first, tag, _ = read(page).segments[0].source
    assert first == "a < b"
    written = translated(page, ("a <b", tag, "c> d"))
    assert plain(read(written).segments[0].source) == "a <b c> d"


def test_letters_new_to_a_segment_are_written_as_elsewhere_in_the_page() -> None:
    assert translated("<p>f&uuml;r<p>a", None, ("ü&",)) == "<p>f&uuml;r<p>&uuml;&amp;"


def test_odd_references_are_tags() -> None:
    content = read("<p>a&#10;b&NotEqualTilde;c").segments[0].source
    assert plain(content) == "a bc"
    assert [tag.shown for tag in tags_of(content)] == ["⏎", "&NotEqualTilde;"]


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("<a title='x'>", "<a title='it&#x27;s \"&lt;'>"),
        ('<a title="x">', '<a title="it&#x27;s &quot;&lt;">'),
        ("<a title=x>", '<a title="it&#x27;s &quot;&lt;">'),
        ("<a title='\"x'>", "<a title='it&#x27;s \"&lt;'>"),
    ],
)
def test_values_keep_their_quotes(page: str, wanted: str) -> None:
    wanted = wanted.replace('"&lt;', "&quot;&lt;") if page == "<a title='x'>" else wanted
    assert translated(page, ("it's \"<",)) == wanted


def test_a_query_in_a_value_is_no_reference() -> None:
    assert texts('<a title="?a=1&copy=2&lt=3">') == ["?a=1&copy=2&lt=3"]


# Encodings.


def test_a_declared_encoding_is_read_and_written() -> None:
    data = '<meta charset="iso-8859-2"><p>zażółć'.encode("iso-8859-2")
    page = check_identity(data)
    assert page.segments[0].source == ("zażółć",)
    written = page.write([("ż € 語",)])
    assert written.endswith("ż".encode("iso-8859-2") + b" &#8364; &#35486;")
    check_identity(b'<?xml version="1.0" encoding="latin1"?><p>\x93a\x81\xfc</p>')
    old = b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>\xcf'
    assert check_identity(old).segments[0].source == ("П",)


def test_marks_and_unknown_encodings() -> None:
    check_identity(b"\xef\xbb\xbf<p>a\xc3\xbc")
    check_identity("<p>ü".encode("utf-16"))
    check_identity('<meta charset="klingon"><p>ü'.encode())
    check_identity(b'<meta charset="utf-16"><p>a')


# The language.


def test_the_language_changes_with_the_translation() -> None:
    page = '<html lang="en-GB" xml:lang=\'en\'><p lang="en">a'
    assert read(page, "en", "de").write([("b",)]).decode() == (
        '<html lang="de" xml:lang=\'de\'><p lang="en">b'
    )
    assert read(page, "en", "de").write([None]).decode() == page
    assert read(page, "fr", "de").write([("a",)]).decode() == page
    assert read(page, "", "").write([("a",)]).decode() == page


# Any page at all.

WORDS = st.sampled_from(
    ["word", "R&amp;D", "&uuml;", "ü", "a < b", "x > y", "AT&T", "&nbsp;", "語", "&#x41;", "\u00ad"]
)
SPACE = st.sampled_from([" ", "  ", "\n", " \r\n\t", "\t", "\f"])
INLINE = st.sampled_from(["b", "i", "a href='x?a&b'", "span class=x", "EM", 'u title="t&quot;t"'])
ALONE = st.sampled_from(
    [
        "<br>",
        "<img alt=x>",
        "<!-- c -->",
        "<code>x<b></code>",
        "</b>",
        "<i>",
        "<wbr/>",
        "<?php a ?>",
    ]
)


def wrap(tag: str, inner: str) -> str:
    return f"<{tag}>{inner}</{tag.split()[0]}>"


RUNS = st.recursive(
    st.one_of(WORDS, SPACE, ALONE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map("".join), st.builds(wrap, INLINE, inner)
    ),
    max_leaves=15,
)
BLOCKS = st.recursive(
    RUNS,
    lambda inner: st.one_of(
        st.builds(wrap, st.sampled_from(["p", "div", "td", "h1", "pre"]), inner),
        st.builds(wrap, st.sampled_from(["p translate=no", "div translate=yes"]), inner),
        st.lists(inner, max_size=4).map("<li>".join),
    ),
    max_leaves=8,
)
BROKEN = st.lists(
    st.one_of(
        st.sampled_from(list("<>&\"'=/!-?;#ab \n\r")),
        st.sampled_from(
            ["<b", "</b>", "<p ", "title=", "<title>", "</title", "<!--", "&am", "&lt"]
        ),
        st.sampled_from(["<p translate=", "no>", "yes>", "</p>", "<textarea>", "<textarea/>"]),
        st.text(max_size=3),
    ),
    max_size=30,
).map("".join)


@given(BLOCKS)
@settings(max_examples=300, deadline=None)
def test_any_page_comes_back(page: str) -> None:
    check_identity(page.encode())


@given(BROKEN)
@settings(max_examples=500, deadline=None)
def test_any_text_comes_back(page: str) -> None:
    check_identity(page.encode())


@given(BLOCKS, st.data())
@settings(max_examples=300, deadline=None)
def test_translations_are_read_again(page: str, data: st.DataObject) -> None:
    document = read(page)
    new_text = st.text(st.sampled_from("<>&;\"'=/!abltxü語#1 "), min_size=1, max_size=8)
    translations = []
    for segment in document.segments:
        parts = [
            "x" + data.draw(new_text).strip() + "x" if isinstance(p, str) else p
            for p in segment.source
        ]
        translations.append(normalised(parts))
    again = read(document.write(translations).decode())
    found = [plain(s.source) for s in again.segments]  # a <br> may be white space now, or no more
    assert [t.replace(" ", "") for t in found] == [plain(t).replace(" ", "") for t in translations]
    for segment, translation in zip(again.segments, translations, strict=True):
        kinds = [tag.kind for tag in tags_of(translation)]
        assert [tag.kind for tag in tags_of(segment.source)] == kinds


def test_tags_may_change_places() -> None:
    page = "<p>a <b>bold</b> and <i>it</i>"
    _, b1, bold, b2, _, i1, it, i2 = read(page).segments[0].source
    written = translated(page, (i1, it, i2, " x ", b1, bold, b2))
    assert written == "<p><i>it</i> x <b>bold</b>"


def test_a_long_broken_page_takes_no_time() -> None:
    for piece in ("<a ", "<!", "<b>", "</i>", "<code>", "<a b='", "&am", " ", "<title>", "<p>x "):
        check_identity((piece * 20_000).encode())


def test_places_are_lines() -> None:
    assert [s.place for s in read("<p>a\n<p>b\n\n<p>c").segments] == ["line 1", "line 2", "line 4"]
    assert re.fullmatch(r"line \d+", read("a").segments[0].place)
