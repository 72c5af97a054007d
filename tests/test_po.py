"""PO files: entries out, translations in, the rest byte by byte as it was."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholedoc.errors import UserError
from wholedoc.formats.po import Po
from wholedoc.formats.segments import Content, normalised, plain, shown

HEADER = """msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=UTF-8\\n"

"""
FILE = (
    HEADER
    + """#. a comment
#: main.c:12
#, c-format
msgid "%d file in \\"home\\"\\n"
msgid_plural "%d files in \\"home\\"\\n"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
#| msgid "Before"
msgctxt "menu"
msgid "_Open"
msgstr "_Auf"

msgid ""
"first line\\n"
"second "
"line"
msgstr ""
"erste Zeile\\n"
"zweite Zeile"

#| msgid "Old"
msgid "New"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""
)


def read(text: str) -> Po:
    return Po(text.encode(), "a.po", "en", "de")


def test_entries_are_segments() -> None:
    segments = read(FILE).segments
    assert [shown(s.source) for s in segments] == [
        '%d file in "home"',
        '%d files in "home"',
        "_Open",
        "first line⏎second line",
        "New",
    ]
    assert [s.target and shown(s.target) for s in segments] == [
        *(None, None, "_Auf", "erste Zeile⏎zweite Zeile", None)
    ]
    assert [s.approved for s in segments] == [False, False, False, True, False]
    assert [s.place for s in segments][:2] == ["line 9", "line 10"]


def test_translations_are_written_as_fuzzy() -> None:
    written = read(FILE).write([("%d Datei",), ("%d Dateien",), ("_Öffnen",), None, ("Neu",)])
    wanted = FILE.replace("Language: ", "Language: de")
    wanted = wanted.replace("#, c-format", "#, fuzzy, c-format")
    wanted = wanted.replace('msgstr[0] ""', 'msgstr[0] "%d Datei\\n"')
    wanted = wanted.replace('msgstr[1] ""', 'msgstr[1] "%d Dateien\\n"')
    wanted = wanted.replace("_Auf", "_Öffnen")
    wanted = wanted.replace('#| msgid "Old"', '#, fuzzy\n#| msgid "Old"')
    wanted = wanted.replace('"New"\nmsgstr ""', '"New"\nmsgstr "Neu"')
    assert written.decode() == wanted


def test_what_a_person_changes_in_an_approved_entry_is_not_fuzzy() -> None:
    document = read(FILE)
    line = document.segments[3].source[1]
    written = document.write([None, None, None, ("eins", line, "zwei"), None]).decode()
    assert written.count("fuzzy") == 1
    assert 'msgstr ""\n"eins\\n"\n"zwei"\n' in written


def test_flags_of_an_obsolete_entry_are_its_own() -> None:
    old = '#, fuzzy\n#| msgid "older"\n#~ msgid "old"\n#~ msgstr "alt"\n\n'
    document = read(HEADER + old + 'msgid "a"\nmsgstr "b"\n\n' + old + 'msgid "c"\nmsgstr ""\n')
    assert [segment.approved for segment in document.segments] == [True, False]
    written = document.write([None, ("C",)]).decode()
    assert written.endswith('\n\n#, fuzzy\nmsgid "c"\nmsgstr "C"\n')
    assert written.count(old) == 2


def test_all_forms_but_the_first_get_the_plural() -> None:
    text = HEADER + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n'
    written = read(text).write([("x",), ("y",)]).decode()
    assert re.findall(r'msgstr\[\d\] "(.)"', written) == ["x", "y", "y"]


def test_one_form_gets_the_plural() -> None:
    text = HEADER + 'msgid "one"\nmsgid_plural "%d"\nmsgstr[0] ""\n'
    assert [plain(s.source) for s in read(text).segments] == ["%d"]


def test_long_lines_are_wrapped_as_in_the_file() -> None:
    long = " ".join(["word"] * 40)
    (*_, written) = read(FILE).write([None] * 4 + [(long,)]).decode().partition('"New"\n')
    lines = written.partition("\n\n")[0].splitlines()
    assert lines[0] == 'msgstr ""'
    assert all(len(line) <= 79 for line in lines)
    assert len(lines[1]) > 70
    unwrapped = HEADER + f'msgid "{"x " * 50}"\nmsgstr ""\n'
    assert f'msgstr "{long}"' in read(unwrapped).write([(long,)]).decode()


def test_other_encodings() -> None:
    text = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "é"\nmsgstr ""\n'
    document = Po(text.encode("latin-1"), "a.po", "fr", "de")
    assert document.segments[0].source == ("é",)
    assert 'msgstr "ä"' in document.write([("ä",)]).decode("latin-1")
    with pytest.raises(UserError, match="日"):
        document.write([("日",)])


@pytest.mark.parametrize(
    ("text", "what", "where", "fix"),
    [
        ('msgid "a"\n', "without msgid or msgstr", "a.po:1", "msgfmt"),
        ('\nmsgid "a\nmsgstr "b"\n', "not a line", "a.po:2", "msgfmt"),
        ('msgid "a"\nmsgstr\n', "without a string", "a.po:2", "msgfmt"),
        ('"a"\n', "without a keyword", "a.po:1", "msgfmt"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', "where an entry has none", "a.po:3", "msgfmt"),
        ('msgctxt "a"\nmsgstr "b"\n', "without msgid or msgstr", "a.po:1", "msgfmt"),
        ("<<<<<<< mine\n", "not a line", "a.po:1", "msgfmt"),
        ('"Content-Type: text/plain; charset=klingon\\n"', "klingon", "a.po", "charset=UTF-8"),
        ('"Content-Type: text/plain; charset=utf-16\\n"', "utf-16", "a.po", "charset=UTF-8"),
    ],
)
def test_bad_files(text: str, what: str, where: str, fix: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert what in error.value.what
    assert error.value.where == where
    assert fix in error.value.fix


def test_bytes_of_another_encoding_are_refused() -> None:
    with pytest.raises(UserError) as error:
        Po(b'msgid "\xff"\nmsgstr ""\n', "a.po", "", "")
    assert error.value.where == "a.po:1"


TEXT = st.text('ab ä日\\"\n\t%', min_size=1, max_size=30)


@st.composite
def strings(draw: Any, text: str, newline: str) -> str:
    """A string in some writing, on one line or on several."""
    pieces = re.findall(r"\\.|[^\\]", text.replace("\\", "\\\\").replace('"', '\\"'))
    parts = [p.replace("\n", "\\n").replace("\t", "\\t") for p in pieces]
    cut = draw(st.integers(0, len(parts)))
    if draw(st.booleans()):
        return f'"{"".join(parts)}"'
    return newline.join(['""', f'"{"".join(parts[:cut])}"', f'"{"".join(parts[cut:])}"'])


@st.composite
def files(draw: Any) -> str:
    """A PO file."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    rows = [draw(st.sampled_from(["", HEADER.replace("\n", newline)]))]
    for _ in range(draw(st.integers(1, 4))):
        comments = ["# x", "#, fuzzy", "#, c-format", '#| msgid "b"', "#: a.c:1", '#~ msgid "o"']
        rows += draw(st.lists(st.sampled_from(comments), max_size=3, unique=True))
        rows += ['msgctxt "c"'] * draw(st.booleans())
        rows.append(f"msgid {draw(strings('k' + draw(TEXT), newline))}")
        count = draw(st.integers(0, 3))
        keywords = [f"msgstr[{n}]" for n in range(count)] or ["msgstr"]
        if count:
            rows.append(f"msgid_plural {draw(strings(draw(TEXT) + 'k', newline))}")
        for keyword in keywords:
            rows.append(f"{keyword} {draw(strings(draw(st.just('') | TEXT), newline))}")
        rows.append("")
    return newline.join(rows)


@given(files())
def test_targets_written_again_give_the_same_bytes(text: str) -> None:
    document = read(text)
    assert document.write([None] * len(document.segments)) == text.encode()
    assert document.write([s.target for s in document.segments]) == text.encode()


@given(files(), st.data())
def test_what_is_written_is_read_again(text: str, data: st.DataObject) -> None:
    document = read(text)
    words = st.lists(st.text('xyzä"\\%', min_size=1, max_size=12), min_size=1, max_size=20)
    translations: list[Content] = [
        normalised(
            " ".join(data.draw(words)) if isinstance(part, str) else part for part in s.source
        )
        for s in document.segments
    ]
    again = read(document.write(translations).decode())
    assert [s.target for s in again.segments] == translations
    assert [s.source for s in again.segments] == [s.source for s in document.segments]
    for before, content, after in zip(document.segments, translations, again.segments, strict=True):
        assert before.approved == after.approved or content == before.target


@given(st.text('msgidstr_plural[0]"\\ \n#,~|', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, f'msgid "a"\nmsgstr "{text}"', FILE + text):
        try:
            document = read(each)
        except UserError:
            continue
        assert document.write([s.target for s in document.segments]) == each.encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for each in (data, b'msgid ""\nmsgstr "Content-Type: a; charset=' + data):
        try:
            document = Po(each, "a.po", "", "")
        except UserError:
            continue
        assert document.write([None] * len(document.segments)) == each


def test_what_a_person_approves_waits_no_more() -> None:
    text = (
        'msgid "a"\nmsgstr ""\n\n#, fuzzy, c-format\nmsgid "b"\nmsgstr "x"\n\n'
        '#, fuzzy\nmsgid "c"\nmsgstr "y"\n\n#, fuzzy\nmsgid "d"\nmsgid_plural "ds"\n'
        'msgstr[0] "z"\nmsgstr[1] "zs"\n'
    )
    file = read(text)
    approved = [replace(segment, approved=n < 4) for n, segment in enumerate(file.segments)]
    file.segments = approved
    written = file.write([("A",), ("B",), ("y",), ("z",), ("zs",)]).decode()
    assert written == (
        'msgid "a"\nmsgstr "A"\n\n#, c-format\nmsgid "b"\nmsgstr "B"\n\n'
        'msgid "c"\nmsgstr "y"\n\n#, fuzzy\nmsgid "d"\nmsgid_plural "ds"\n'
        'msgstr[0] "z"\nmsgstr[1] "zs"\n'
    )
    file.segments = [replace(segment, approved=True) for segment in approved]
    assert "fuzzy" not in file.write([("A",), ("B",), ("y",), ("z",), ("zs",)]).decode()
