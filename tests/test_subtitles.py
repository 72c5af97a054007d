"""Subtitles: sentences over cues out, translations in, times and numbers as they were."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholedoc.errors import UserError
from wholedoc.formats.placing import find_units, place_tags
from wholedoc.formats.segments import Content, Tag, plain, shown
from wholedoc.formats.subtitles import Subtitles

SRT = """1
00:00:01,000 --> 00:00:02,500
I never thought
that <i>she</i>

2
00:00:02,600 --> 00:00:04,000
{\\an8}would come back.

3
00:00:04,100 --> 00:00:06,000
- Are you sure?
- <b>Yes</b>, I saw her
at the station.

4
00:00:20,000 --> 00:00:21,000
[door opens]

5
00:00:21,100 --> 00:00:22,000
No end here

6
00:00:29,000 --> 00:00:30,000
after a pause
"""

VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE a note
of two lines

intro
00:01.000 --> 00:02.000 align:start position:0%
<v Anna>Tom &amp; Jerry are

00:02.100 --> 00:03.000
<c.loud>here</c> <00:00:02.500>now &lt;3
"""


def read(text: str, name: str = "a.srt") -> Subtitles:
    return Subtitles(text.encode(), name, "en", "de")


def test_sentences_run_over_cues() -> None:
    assert [shown(segment.source) for segment in read(SRT).segments] == [
        "I never thought⏎that <i>she</i>⏵{\\an8}would come back.",
        "Are you sure?",
        "<b>Yes</b>, I saw her⏎at the station.",
        "[door opens]",
        "No end here",
        "after a pause",
    ]


def test_a_segment_says_where_it_stands() -> None:
    assert [segment.place for segment in read(SRT).segments][:3] == ["line 3", "line 12", "line 13"]


def test_web_subtitles() -> None:
    (segment,) = read(VTT, "a.vtt").segments
    assert shown(segment.source) == (
        "<v Anna>Tom & Jerry are⏵<c.loud>here</c> <00:00:02.500>now <3"
    )


def test_a_translation_is_written_in_place() -> None:
    document = read(VTT, "a.vtt")
    (segment,) = document.segments
    voice, cue, opened, closed, time = (p for p in segment.source if isinstance(p, Tag))
    new: Content = (voice, "A & B <", cue, time, opened, "hier", closed, " --> da")
    written = document.write([new]).decode()
    assert written == VTT.replace("Tom &amp; Jerry are", "A &amp; B &lt;").replace(
        "<c.loud>here</c> <00:00:02.500>now &lt;3", "<00:00:02.500><c.loud>hier</c> --&gt; da"
    )


def test_at_most_six_cues_are_joined() -> None:
    cues = [f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\nword\n" for n in range(10)]
    assert [plain(s.source) for s in read("\n".join(cues)).segments] == [
        " ".join(["word"] * 6),
        " ".join(["word"] * 4),
    ]


@pytest.mark.parametrize(
    "text",
    [
        SRT.replace("\n", "\r\n"),
        "\ufeff" + SRT,
        SRT.rstrip("\n"),
        re.sub(r"(?m)^\d\n", "", SRT),  # no numbers
        SRT.replace("\n\n", "\n\n\n"),
        SRT.replace("\n\n", "\n"),
        re.sub(r"(\d\d),(\d\d\d)", r"\1.\2", SRT),
    ],
    ids=[
        "crlf",
        "mark",
        "no last newline",
        "no numbers",
        "empty lines",
        "no empty lines",
        "points",
    ],
)
def test_writings_of_the_same(text: str) -> None:
    document = read(text)
    wanted = [shown(segment.source) for segment in read(SRT).segments]
    assert [shown(segment.source) for segment in document.segments] == wanted
    assert document.write([s.source for s in document.segments]) == text.encode()


def test_a_line_without_text_does_not_end_its_cue() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\none\ntwo\n\n00:08.000 --> 00:09.000\nthree.\n"
    document = read(text, "a.vtt")
    first = document.segments[0].source
    written = document.write([(first[1], "zwei"), None]).decode()
    assert written == text.replace("one\ntwo", "zwei")
    document = read(text, "a.vtt")
    assert document.write([(first[1],), None]).decode() == text.replace("one\ntwo\n", "\n")


def test_lost_tags_are_an_error() -> None:
    document = read(SRT)
    with pytest.raises(UserError, match="not the tags"):
        document.write([("text",), *[None] * 5])


@pytest.mark.parametrize(
    ("data", "what", "place", "fix"),
    [
        (b"", "no subtitle found", "a.srt", "-->"),
        (b"only text\n", "no subtitle found", "a.srt", "-->"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n\xff\n", "not UTF-8", "a.srt:3", "UTF-8"),
    ],
)
def test_bad_files(data: bytes, what: str, place: str, fix: str) -> None:
    with pytest.raises(UserError) as error:
        Subtitles(data, "a.srt", "en", "de")
    assert what in error.value.what
    assert error.value.where == place
    assert fix in error.value.fix


WORD = st.text("abcäß日.?!&;", min_size=1, max_size=6)
PLAIN = st.lists(WORD, min_size=1, max_size=4).map(" ".join)
DECORATED = st.one_of(
    PLAIN,
    PLAIN.map("<i>{}</i>".format),
    PLAIN.map("- {}".format),
    PLAIN.map("{{\\an8}}{}".format),
    PLAIN.map("{} <b>open".format),
    PLAIN.map("[{}]".format),
    PLAIN.map("  {} ".format),
)


@st.composite
def files(draw: Any) -> tuple[str, str]:
    """A file of subtitles, and its name."""
    web, newline = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"]))
    at, rows = 0.0, ["WEBVTT", ""] if web else []
    for n in range(draw(st.integers(1, 6))):
        at += draw(st.sampled_from([0.1, 1.0, 5.0]))
        first, last = (f"00:00:{seconds:06.3f}" for seconds in (at, at + 1))
        at += 1
        rows += [str(n)] * draw(st.booleans())
        rows += [f"{first} --> {last}", *draw(st.lists(DECORATED, max_size=3))]
        rows += [""] * draw(st.integers(1, 2))
    text = newline.join(rows[: -1 if draw(st.booleans()) else None])
    return text if web else text.replace(".", ","), "a.vtt" if web else "a.srt"


@given(files())
def test_sources_written_again_give_the_same_bytes(file: tuple[str, str]) -> None:
    text, name = file
    document = read(text, name)
    assert document.write([None] * len(document.segments)) == text.encode()
    assert document.write([segment.source for segment in document.segments]) == text.encode()


@given(files(), st.data())
def test_what_is_written_is_read_again(file: tuple[str, str], data: st.DataObject) -> None:
    text, name = file
    document = read(text, name)
    words = st.text("xyz&<é", min_size=1, max_size=8)
    translations = [
        tuple(data.draw(words) if isinstance(part, str) else part for part in segment.source)
        for segment in document.segments
    ]
    written = document.write(translations).decode()
    assert re.findall(r".*-->.*", written) == re.findall(r".*-->.*", text)
    parts = [part for segment in read(written, name).segments for part in segment.source]
    new = [part for content in translations for part in content]
    assert _texts(parts) == _texts(new)
    assert sorted(_tags(parts)) == sorted(_tags(new))


def _texts(parts: list[str | Tag]) -> str:
    return re.sub(r"\s", "", "".join(part for part in parts if isinstance(part, str)))


def _tags(parts: list[str | Tag]) -> list[str]:
    """The tags but those between lines: new texts end sentences elsewhere."""
    return [part.shown for part in parts if isinstance(part, Tag) and not part.space]


@given(st.text("0123:,.-> \n\r<i/>&amp;{\\}WEBVTT♪", max_size=80), st.sampled_from(["srt", "vtt"]))
def test_any_text_is_read_or_refused(text: str, ending: str) -> None:
    clock = "00:00:01,000 --> 00:00:02,000\n"
    for each in (text, clock + text, f"WEBVTT\n\n{clock}{text}"):
        try:
            document = read(each, f"a.{ending}")
        except UserError:
            continue
        assert document.write([s.source for s in document.segments]) == each.encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        document = Subtitles(data, "a.srt", "", "")
    except UserError:
        return
    assert document.write([None] * len(document.segments)) == data


def test_tags_that_do_not_nest_stand_alone() -> None:
    (segment,) = read("00:00:01,000 --> 00:00:02,000\n<i>a<b>b</i>c</b>\n").segments
    kinds = [part.kind for part in segment.source if isinstance(part, Tag)]
    assert kinds == ["open", "alone", "close", "alone"]


def test_tags_that_nest_without_end_are_read() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\n" + "<i>" * 2000 + "A" + "</i>" * 2000 + "\n"
    (segment,) = read(text).segments
    placed = place_tags(segment.source, "B", find_units("B", [(0, 1, 0)]))
    assert shown(placed) == "<i>" * 2000 + "B" + "</i>" * 2000
