"""The page that explains translations: nothing lost, everything escaped, every kind of model."""

import html
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wholedoc.cli
from wholedoc.app.explain import Explanation, mark_changes
from wholedoc.app.lines import translate_lines
from wholedoc.config import Config, ModelConfig, SearchConfig, VocabularyConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers import SourceDocument, read_source_lines
from wholedoc.corpus.vocabulary import build_vocabularies
from wholedoc.decoding.known import KnownPair
from wholedoc.decoding.recollection import RecalledWord, WordSource
from wholedoc.decoding.results import Task, TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.rendering.charts import draw_heat_map
from wholedoc.rendering.tables import make_page, make_table
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.model import TrainedModel
from wholedoc.store.run import Run, language_stage

# Words that changed


@pytest.mark.parametrize(
    ("before", "after", "left", "right"),
    [
        ("", "", "", ""),
        ("it is red", "it is red", "it is red", "it is red"),
        ("it is red", "she is red", "<del>it</del> is red", "<ins>she</ins> is red"),
        ("a b c d", "a x y d", "a <del>b c</del> d", "a <ins>x y</ins> d"),
        ("a b", "a", "a <del>b</del>", "a"),
        ("", "a b", "", "<ins>a b</ins>"),
        ("so.", "so!", "so<del>.</del>", "so<ins>!</ins>"),
        ("<b>", "<i>", "&lt;<del>b</del>&gt;", "&lt;<ins>i</ins>&gt;"),
        ("a  b", "a b", "a  b", "a b"),
        ("Ta läks & jäi", "Ta läks & tuli", "Ta läks &amp; <del>jäi</del>", None),
    ],
)
def test_changed_words_are_marked(before: str, after: str, left: str, right: str | None) -> None:
    found = mark_changes(before, after)
    assert found[0] == left
    if right is not None:
        assert found[1] == right


def plain(marked: str) -> str:
    return html.unescape(re.sub(r"</?(del|ins)>", "", marked))


texts = st.text(st.sampled_from("ab <>&\"'.äé\u0301 \u3000家"), max_size=12)


@given(texts, texts)
@settings(max_examples=100, deadline=None)
def test_marks_lose_no_text(before: str, after: str) -> None:
    left, right = mark_changes(before, after)
    assert (plain(left), plain(right)) == (before.rstrip(), after.rstrip())
    same = re.findall(r"\w+|[^\w\s]", before) == re.findall(r"\w+|[^\w\s]", after)
    assert ("<del>" in left or "<ins>" in right) != same


# Heat maps


def squares(drawn: str) -> dict[float, int]:
    """How many squares there are of each shade, and none twice."""
    found: dict[float, int] = {}
    places = set()
    for shade, path in re.findall(r'<path opacity="([\d.]+)" d="([^"]+)"/>', drawn):
        for x, y, run in re.findall(r"M(\d+) (\d+)\.5h(\d+)", path):
            cells = {(int(x) + i, int(y)) for i in range(int(run))}
            assert not cells & places
            places |= cells
            found[float(shade)] = found.get(float(shade), 0) + len(cells)
    return found


def test_a_heat_map_has_a_square_for_each_weight() -> None:
    weights = torch.tensor([[0.0, 0.25, 0.75], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    drawn = draw_heat_map(weights, "Source <memory>", "source")
    assert squares(drawn) == {0.25: 1, 0.5: 2, 0.75: 1, 1.0: 1}
    assert "M0 2.5h1" in drawn  # row 3 reads column 1
    assert "Source &lt;memory&gt;: row t reads column t'. Full colour: 1.000." in drawn
    assert re.findall(r">(\d+)</text>", drawn) == ["1", "1", "2", "2", "3", "3"]
    assert "mean over" not in drawn


def test_a_large_heat_map_shows_means_and_says_so() -> None:
    weights = torch.zeros(201, 201)
    weights[0, 0:3] = 0.9  # block (0, 0) has 2.7 over 9 squares
    weights[200, 200] = 0.225  # 0.025 over its block, a twelfth of the largest mean
    drawn = draw_heat_map(weights, "Source memory")
    assert "Each square is the mean over 3 × 3 sentences, since there are 201." in drawn
    assert "Full colour: 0.300." in drawn
    assert 'data-block="3"' in drawn
    assert squares(drawn) == {1.0: 1, 0.08: 1}
    weights = torch.zeros(101, 101)
    weights[100, 100] = 0.8  # the last block holds this one alone, and nothing beyond the edge
    drawn = draw_heat_map(weights, "Source memory")
    assert "Full colour: 0.800." in drawn
    assert "M50 50.5h1" in drawn


@given(st.integers(1, 220))
@settings(max_examples=10, deadline=None)
def test_heat_maps_stay_small(sentences: int) -> None:
    generator = torch.Generator().manual_seed(sentences)
    drawn = draw_heat_map(torch.rand(sentences, sentences, generator=generator) + 0.1, "m")
    side = -(-sentences // -(-sentences // 100))
    assert side <= 100
    assert sum(squares(drawn).values()) == side * side
    numbers = [int(number) for number in re.findall(r">(\d+)</text>", drawn)]
    assert len(numbers) <= 18
    assert {1} <= set(numbers) <= set(range(1, sentences + 1))


# Pages by hand

BOTH = ModelConfig(memory="both", fusion="context")
WEIGHTS = torch.tensor([[0.0, 0.25, 0.75], [0.5, 0.0, 0.5], [0.9996, 0.0004, 0.0]])


def document(*texts: str, name: str = "made up") -> SourceDocument:
    return SourceDocument(name, tuple(enumerate(texts)))


def translated(
    *history: list[str],
    source: torch.Tensor | None = None,
    target: torch.Tensor | None = None,
    known: list[list[KnownPair]] | None = None,
    recall: list[list[RecalledWord]] | None = None,
    approved: dict[int, str] | None = None,
) -> TranslatedDocument:
    objective = [-10.0 * number for number in range(1, len(history))]
    known = known or [[] for _ in history[0]]
    task = Task([], SearchConfig(), approved=approved or {})
    weights = source, target
    return TranslatedDocument([], list(history), *weights, objective, [], known, recall, task)


def page_of(
    tmp_path: Path,
    *documents: tuple[SourceDocument, TranslatedDocument],
    config: ModelConfig = BOTH,
    search: SearchConfig | None = None,
) -> str:
    page = Explanation("runs/<both>", "in & out", config, search or SearchConfig(), True)
    for one in documents:
        page.add(*one)
    page.write(tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


EVIL = "<script>alert(1)</script> & \"x\" 'y'"


def test_text_is_escaped_everywhere(tmp_path: Path) -> None:
    before = [EVIL, "b", "c"]
    after = [EVIL.replace("alert", "print"), "b", "c"]
    found = translated(before, after, source=WEIGHTS, target=WEIGHTS)
    text = page_of(tmp_path, (document(EVIL, "2", "3", name=EVIL), found), (document("1"), found))
    assert "<script>alert" not in text
    assert "<script>print" not in text
    assert text.count("<script>") == 1  # our own
    assert html.escape(EVIL) in text
    assert "&lt;script&gt;<del>alert</del>(1)" in text
    assert "&lt;script&gt;<ins>print</ins>(1)" in text
    assert "runs/&lt;both&gt; (Memory-to-Context +both)" in text
    assert "in &amp; out" in text
    assert "http" not in text
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!#)[\w/]", text.partition("<body")[2])


def test_weights_are_numbers_and_nothing_is_dropped(tmp_path: Path) -> None:
    found = translated(["a", "b", "c"], ["a", "b", "d"], source=WEIGHTS, target=WEIGHTS.flip(0))
    text = page_of(tmp_path, (document("1", "2", "3"), found))
    assert 'data-source="3:0.750 2:0.250" data-source-rest="0:0.000"' in text
    assert 'data-source="1:1.000" data-source-rest="1:0.000"' in text  # 0.0004 is among the rest
    assert '<span class="source">3&nbsp;(0.750), 2&nbsp;(0.250)</span>' in text
    assert text.count("<figure") == 2
    assert "1 of 3</td><td>-10.000" in text  # sentences changed, objective
    assert "chooser" not in text.partition("<script>")[0]
    assert "choice" not in text.partition("<script>")[0].partition("</style>")[2]


def test_a_change_that_was_taken_back_does_not_stand_out(tmp_path: Path) -> None:
    """Bold are the sentences that differ in the update shown; the last one, to begin with."""
    found = translated(["a", "b", "c"], ["x", "y", "c"], ["a", "z", "c"])
    text = page_of(tmp_path, (document("1", "2", "3"), found))
    assert '<tr id="d1s1" data-changed="1"' in text
    assert '<tr id="d1s2" class="changed" data-changed="1 2"' in text
    assert '<tr id="d1s3" data-changed=""' in text
    assert "tr.changed button {" in text
    assert "tr[data-changed]" not in text


def test_many_weights_are_summed_up(tmp_path: Path) -> None:
    size = 40
    weights = (1 - torch.eye(size)) / (size - 1)
    lines = [str(t) for t in range(size)]
    text = page_of(tmp_path, (document(*lines), translated(lines, lines, source=weights)))
    row = re.search(r'<tr id="d1s1" .*?data-source="([^"]*)" data-source-rest="([^"]*)"', text)
    assert row is not None
    assert len(row[1].split()) == 25
    assert row[2] == f"14:{14 / 39:.3f}"


def test_passes_can_be_chosen_if_there_are_several(tmp_path: Path) -> None:
    found = translated(["a b"], ["a c"], ["a d"], source=torch.zeros(1, 1))
    text = page_of(tmp_path, (document("1"), found)).partition("</style>")[2]
    assert '<option value="2" selected>update 2, the final one</option>' in text
    assert '<span data-update="1" hidden>a <ins>c</ins></span>' in text
    assert '<span data-update="2">a <ins>d</ins></span>' in text
    assert 'data-changed="1 2"' in text
    assert "no sentence has another one to read" in text
    assert "<figure" not in text


def test_documents_can_be_chosen_if_there_are_several(tmp_path: Path) -> None:
    found = translated(["a"], ["b"], source=torch.zeros(1, 1))
    parts = [(document("1", name=name), found) for name in ("one", "two")]
    text = page_of(tmp_path, *parts)
    assert '<option value="d2">two</option>' in text
    assert text.count("<section ") == 2
    assert len(set(re.findall(r' id="([^"]+)"', text))) == len(re.findall(r' id="', text))


def test_an_empty_input_has_a_page(tmp_path: Path) -> None:
    assert "There was nothing to translate." in page_of(tmp_path)


def test_other_reports_share_the_look() -> None:
    page = make_page("a < b", make_table(["x"], [["1"], ["2"]], "measures"))
    assert "<title>a &lt; b</title>" in page
    assert page.count("<tr><td>") == 2
    assert "<script>" not in page
    assert "border-collapse" in page


# Recalled words

PAIR = KnownPair(
    "Die rote Tür", "The red door", 66, 0.5, 0.9, "oven", 4, "a.tmx", "2024", Path("tm"), 1
)
OWN = KnownPair("Das Haus", "The house", 50, 0.5, 0.5, "", 2, "")


def word(
    text: str, share: float = 0.9, *sources: tuple[int, str, float], gate: float = 0.8
) -> RecalledWord:
    return RecalledWord(text, gate, share, tuple(WordSource(*source) for source in sources))


def recalled(
    *words: RecalledWord, text: str = "", known: tuple[KnownPair, ...] = (PAIR, OWN)
) -> TranslatedDocument:
    """A document of one sentence with what its words were recalled from."""
    text = text or " ".join(each.text for each in words)
    return translated([text], known=[list(known)], recall=[list(words)])


MARKED = re.compile(r"<mark (class=\"recalled\" style=.*?)>(.*?)</mark>")


def words_of(page: str) -> list[tuple[str, dict[str, str]]]:
    """The marked words of the sentences of a page, with their attributes."""
    found = MARKED.findall(page.partition("<tbody>")[2])
    return [(plain(text), dict(re.findall(r'([\w-]+)="([^"]*)"', given))) for given, text in found]


def final_of(page: str) -> str:
    """The last translation of the first sentence, without what stands below it."""
    cell = page.partition('<td class="final"')[2].partition(">")[2].partition("</td>")[0]
    cell = re.sub(r"<details.*?</details>|<span data-update=.\d. hidden>.*?</span>", "", cell)
    return html.unescape(re.sub(r"</?(mark|ins|span)\b.*?>", "", cell))


def test_recalled_words_name_their_pairs(tmp_path: Path) -> None:
    words = [
        word("The", 0.02, (0, "The", 0.9)),
        word("red", 0.97, (0, "red", 0.8), (1, "house", 0.07), (1, "The", 0.01)),
        word("house.", 0.456, (1, "house", 0.9)),
        word("so", 0.9),
    ]
    text = page_of(tmp_path, (document("Das rote Haus."), recalled(*words)))
    assert final_of(text) == "The red house. so"
    (red, first), (house, second) = words_of(text)  # a small share and no source: no mark
    assert (red, house) == ("red", "house.")
    assert json.loads(html.unescape(first["data-from"])) == [[1, 0.8], [2, 0.07, "house"]]
    assert json.loads(html.unescape(second["data-from"])) == [[2, 0.9, "house"]]
    assert (first["style"], first["data-gate"]) == ("--share:0.97", "0.80")
    assert second["title"] == "46 % recalled: pair 2"  # without JavaScript
    pairs = re.findall(r'<li value="(\d)">(.*?)</li>', text)
    assert [number for number, _ in pairs] == ["1", "2"]
    assert "Die rote Tür" in pairs[0][1]
    assert "66 % match, a.tmx, document oven, pair 5, 2024" in pairs[0][1]
    assert "50 % match, approved in this document, sentence 3" in pairs[1][1]
    assert "2 of 4 words are tinted" in text
    assert "<summary>2 known pairs</summary>" in text


def test_only_pairs_that_words_came_from_are_listed(tmp_path: Path) -> None:
    text = page_of(tmp_path, (document("1"), recalled(word("house", 0.9, (1, "house", 0.9)))))
    assert re.findall(r'<li value="(\d)">', text) == ["2"]
    text = page_of(tmp_path, (document("1"), recalled(word("house", 0.01, (1, "house", 0.9)))))
    assert "<details" not in text
    assert "0 of 1 words are tinted" in text


def test_without_known_pairs_there_is_no_legend(tmp_path: Path) -> None:
    text = page_of(tmp_path, (document("1"), translated(["a"], recall=[[word("a", 0.0)]])))
    assert 'class="legend"' not in text


def test_recalled_words_are_escaped(tmp_path: Path) -> None:
    evil = replace(PAIR, src=EVIL, trg=EVIL, document=EVIL, origin=EVIL)
    words = [word(text, 0.9, (0, f"{text}<i>", 0.9)) for text in EVIL.split()]
    text = page_of(tmp_path, (document(EVIL), recalled(*words, known=(evil,))))
    assert "<script>alert" not in text
    assert "<i>" not in text
    assert text.count("<script>") == 1
    assert final_of(text) == EVIL
    assert [found for found, _ in words_of(text)] == EVIL.split()
    assert text.count(html.escape(EVIL)) == 5  # source; the pair, its document and its origin
    assert "http" not in text


def test_words_that_are_written_in_another_way_do_not_shift_others(tmp_path: Path) -> None:
    """An unknown word is replaced, and marks stand where they belong."""
    words = [word(text, 0.9, (0, text, 0.9)) for text in ("a", "<unk>", "is", "is", ".")]
    text = page_of(tmp_path, (document("1"), recalled(*words, text="a dog is is.")))
    assert final_of(text) == "a dog is is."
    assert [found for found, _ in words_of(text)] == ["a", "is", "is", "."]
    assert "</mark> dog <mark" in text
    strange = recalled(word("is", 0.9, (0, "is", 0.9)), text="this is not it")
    assert words_of(page_of(tmp_path, (document("1"), strange))) == []


known_texts = st.lists(
    st.text(st.sampled_from("ab<>&\"'.äé家ש"), min_size=1, max_size=4), max_size=6
)


@given(known_texts, known_texts)
@settings(max_examples=50, deadline=None)
def test_marks_of_recall_lose_no_text(before: list[str], after: list[str]) -> None:
    words = [word(text, 0.9, (0, text, 0.9)) for text in after]
    history = [" ".join(before)], [" ".join(after)]
    found = translated(*history, known=[[PAIR]], recall=[words])
    page = Explanation("m", "s", BOTH, SearchConfig(), True)
    page.add(document("1"), found)
    assert final_of(page.sections[0]) == " ".join(after)
    assert [text for text, _ in words_of(page.sections[0])] == after


def test_changes_stay_marked_in_recalled_words(tmp_path: Path) -> None:
    words = [word("a", 0.9, (0, "red", 0.9)), word("door.", 0.9, (0, "door", 0.9))]
    found = translated(["a house."], ["a flat."], ["a door."], known=[[PAIR]], recall=[words])
    text = page_of(tmp_path, (document("1"), found))
    assert '<span data-update="1" hidden>a <ins>flat</ins>.</span>' in text
    assert '<span data-update="2"><mark ' in text
    assert "><ins>door</ins>.</mark></span><details" in text
    assert "a <del>house</del>." in text


def test_approved_sentences_are_named_so(tmp_path: Path) -> None:
    found = translated(["a", "b"], known=[[], [OWN]], recall=[[], []], approved={0: "a"})
    text = page_of(tmp_path, (document("1", "2"), found))
    assert text.count('<span class="approved">approved</span>') == 1
    assert 'dir="auto">a<span class="approved">' in text
    assert "One approved sentence stayed as it is." in text


# Every kind of model

SIZES = {"hidden": 6, "embedding": 5, "alignment": 4}
PAIRS = [("the red house .", "das rote haus ."), ("a dog sleeps .", "ein hund schläft .")]
TEXT = "the red house .\na dog sleeps .\nthe dog .\n\na red dog .\n"
SEARCH = SearchConfig(beam=1, passes=2, max_length_factor=1.0, max_length_extra=1)
VOCABULARIES = build_vocabularies(
    [Document("made up", tuple(SentencePair(src, trg) for src, trg in PAIRS))],
    VocabularyConfig(kind="word", size=0, min_frequency=1),
    "en",
    "de",
)


def make_model(config: ModelConfig, search: SearchConfig) -> TrainedModel:
    sizes = [len(vocabulary) for vocabulary in VOCABULARIES]
    base = TranslationModel(config.without_context(), *sizes)
    model = TranslationModel(config, *sizes)
    vectors = SentenceVectors(sizes[0], config).eval() if config.reads_source else None
    for seed, module in enumerate((base, model, vectors)):
        if module is not None:
            initialise(module, seed)
    document = model.eval() if config.reads_document else None
    settings = Config(model=config, search=search)
    return TrainedModel(settings, *VOCABULARIES, base.eval(), document, vectors)


KINDS: dict[str, tuple[ModelConfig, str, str]] = {
    "sentence": (ModelConfig(**SIZES), "", "translates each sentence by itself"),
    "src": (ModelConfig(**SIZES, memory="src", fusion="context"), "source", "Choose a sentence"),
    "trg": (ModelConfig(**SIZES, memory="trg", fusion="output"), "target", "Choose a sentence"),
    "both": (
        ModelConfig(**SIZES, memory="both", fusion="context"),
        "source target",
        "Choose a sentence",
    ),
    "prevtrg": (ModelConfig(**SIZES, context="prevtrg"), "target", "Choose a sentence"),
    "wang2017": (ModelConfig(**SIZES, context="wang2017"), "", "up to three source sentences"),
    "jean2017": (ModelConfig(**SIZES, context="jean2017"), "", "words of the source sentence"),
    "more": (ModelConfig(**SIZES, context="more"), "", "Nothing was read: this model was trained"),
}


def explain(config: ModelConfig, search: SearchConfig, text: str, path: Path) -> str:
    """Translate a text and return its page."""
    translator = Translator(make_model(config, search))
    page = Explanation("model", "text", config, search, translator.reads_documents)
    output = io.StringIO()
    source = read_source_lines(io.BytesIO(text.encode()))
    translate_lines(translator, source, output, search, keep=page.add)
    assert output.getvalue().count("\n") == text.count("\n")
    page.write(path)
    return path.read_text(encoding="utf-8").partition("</style>")[2].partition("<script>")[0]


@pytest.mark.parametrize(("config", "sides", "says"), KINDS.values(), ids=KINDS)
def test_every_kind_of_model(config: ModelConfig, sides: str, says: str, tmp_path: Path) -> None:
    found = explain(config, SEARCH, TEXT, tmp_path / "page.html")
    assert found.count("<section ") == 2
    assert len(re.findall(r'<tr id="d\ds\d"', found)) == 5
    assert says in found
    assert ("no sentence has another one to read" in found) == bool(sides)  # the last is alone
    for side in ("source", "target"):
        assert (f'<figure class="map {side}">' in found) == (side in sides.split())
        assert (f"data-{side}=" in found) == (side in sides.split())


def test_sentences_in_turn_read_new_translations(tmp_path: Path) -> None:
    search = replace(SEARCH, order="sequential")
    found = explain(KINDS["trg"][0], search, "the dog .\n" * 2, tmp_path / "page.html")
    assert 'data-order="sequential"' in found
    assert "before that pass, or of it where they stand earlier." in found


def test_prevtrg_reads_the_sentence_before(tmp_path: Path) -> None:
    found = explain(KINDS["prevtrg"][0], SEARCH, "the dog .\n" * 3, tmp_path / "page.html")
    read = re.findall(r'data-target="([^"]*)" data-target-rest="([^"]*)"', found)
    assert read == [("", "2:0.000"), ("1:1.000", "1:0.000"), ("2:1.000", "1:0.000")]
    assert '<span class="target">nothing</span>' in found


@pytest.mark.parametrize(("first_pass", "maps"), [("base", 0), ("document", 1)])
def test_without_updates_only_a_first_pass_may_have_read(
    first_pass: str, maps: int, tmp_path: Path
) -> None:
    search = replace(SEARCH, passes=0, first_pass=first_pass)
    found = explain(KINDS["both"][0], search, "the dog .\na house .\n", tmp_path / "page.html")
    assert found.count("<figure") == maps
    assert ("no update followed the first pass" in found) == (maps == 0)
    assert '<th class="final">translation</th>' in found


def test_a_local_context_is_read_by_a_first_pass_of_the_document_model(tmp_path: Path) -> None:
    search = replace(SEARCH, passes=0, first_pass="document")
    for context, says in (("wang2017", "up to three"), ("prevtrg", "no update followed")):
        assert says in explain(KINDS[context][0], search, "dog\ndog\n", tmp_path / "page.html")


def test_a_long_document_stays_whole(tmp_path: Path) -> None:
    """A sentence model translates in pieces, but explains whole documents."""
    found = explain(KINDS["sentence"][0], SEARCH, "dog\n" * 1010, tmp_path / "page.html")
    assert found.count("<section ") == 1
    assert found.count("<tr id=") == 1010


# The command

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with random weights."""
    config = KINDS["both"][0]
    made = Run(tmp_path_factory.mktemp("explained") / "run")
    with made.lock():
        made.prepare(Config(model=config, search=SEARCH))
    for vocabulary, file in zip(VOCABULARIES, made.vocabulary_files(), strict=True):
        vocabulary.save(file)
    system = make_model(config, SEARCH)
    save_weights(made.stage("stage1").best, system.base)
    save_weights(made.stage("stage2").best, system.document)
    assert system.vectors is not None
    for direction, model in system.vectors.models.items():
        save_weights(made.stage(language_stage(direction)).best, model)
    return made.directory


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs ``wholedoc translate`` in a directory with a text: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["wholedoc", "translate", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        assert isinstance(caught.value.code, int)
        return caught.value.code, *capsys.readouterr()

    return call


def test_the_command_writes_page_and_translations(run: Path, cli: Cli) -> None:
    _, expected, found = cli(run, "text")
    assert found.startswith("text: ")
    assert " document" in found
    assert expected.count("\n") == 5
    assert cli(run, "text", "--explain", "page.html") == (0, expected, found)
    page = Path("page.html").read_text()
    assert "<title>text, translated by run</title>" in page
    assert "at most 2, parallel" in page
    assert "greedy" in page
    assert cli(run, "text", "--explain", "other.html", "-o", "out") == (0, "", found)
    assert Path("out").read_text() == expected
    assert Path("other.html").read_text() == page
    assert cli(run, "--explain", "page.html", "--passes", "0", "--beam", "3")[0] == 0
    page = Path("page.html").read_text()
    assert "standard input, translated by run" in page
    assert "beam 3" in page
    assert "no update followed" in page


BAD_COMMANDS: dict[str, tuple[list[str], str]] = {
    "two inputs": (["text", "text", "--explain", "p"], "--explain: goes with one input"),
    "over its input": (["text", "--explain", "text"], "would overwrite an input"),
    "no place": (["text", "--explain", "/proc/p"], "choose another place with --explain"),
    "a folder": (["text", "--explain", "."], "is a folder"),
    "both to one file": (["text", "--explain", "p", "-o", "p"], "p: translations and page"),
    "shuffled": (["text", "--explain", "p", "--shuffle-memory"], "--explain: does not go with"),
}


@pytest.mark.parametrize(("arguments", "what"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_bad_commands_say_what_is_wrong(
    arguments: list[str], what: str, run: Path, cli: Cli
) -> None:
    code, output, errors = cli(run, *arguments)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert what in errors
    assert Path("text").read_text() == TEXT
    assert not Path("p").exists()
