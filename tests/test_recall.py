"""Recall: its equation against a slow loop, its cells, search, scoring, fitting, explanations."""

import dataclasses
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import MakeModel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy import document_config, toy_config

from wholedoc.app.export import export_model
from wholedoc.config import MemoryConfig, ModelConfig, SearchConfig, load_config
from wholedoc.corpus.batches import pad
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import EOS, PAD, UNK, WordVocabulary
from wholedoc.decoding import descent
from wholedoc.decoding.known import KnownPair, find_known
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.recall import CellRow, Recaller, look_up
from wholedoc.decoding.scoring import Recalls, score_translations
from wholedoc.decoding.search import search
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.kernels import EightBitProduct
from wholedoc.model.recall import Cells, Recall
from wholedoc.store.cells import CellStore, EntryCells, PairCells, write_cells
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.model import TrainedModel, load_model
from wholedoc.store.shortlist import Shortlist
from wholedoc.tm.memory import Match, MemoryWriter, TranslationMemory
from wholedoc.training.loop import read_log
from wholedoc.training.recall import fit_recall, learn_projection
from wholedoc.training.stages import train

HIDDEN, VOCABULARY = 5, 9
WORDS = [f"w{i}" for i in range(VOCABULARY - 4)]
VOCABULARIES = WordVocabulary([f"s{i}" for i in range(7)], "et"), WordVocabulary(WORDS, "en")


def make_recall(seed: int = 1, hidden: int = HIDDEN) -> Recall:
    """A recall with random numbers of a sensible size."""
    generator = torch.Generator().manual_seed(seed)
    recall = Recall(hidden).double()
    with torch.no_grad():
        for parameter in (recall.projection, recall.center, recall.scores, recall.gate):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        recall.projection.mul_(10)
        recall.scores[0] = 0.002
        recall.gate.mul_(0.3)  # neither open nor closed
    return recall


def make_cells(counts: list[int], seed: int = 2, width: int = HIDDEN) -> Cells:
    """Random cells, so many for each sentence; some of them are ends."""
    generator = torch.Generator().manual_seed(seed)
    most = max(1, *counts)
    shape = (len(counts), most)
    mask = torch.arange(most) < torch.tensor(counts)[:, None]
    types = torch.tensor([[EOS, 4, 5, 6]]).repeat(len(counts), 1)
    keys = torch.randint(-100, 100, (*shape, width), generator=generator).double()
    return Cells(
        keys,
        Cells.square(keys, mask),
        torch.randint(0, 4, shape, generator=generator),
        torch.rand(shape, generator=generator, dtype=torch.float64),
        torch.rand(shape, generator=generator, dtype=torch.float64),
        torch.randint(0, 2, shape, generator=generator).double(),
        mask,
        types,
    )


def logit(probability: float) -> float:
    """log(p / (1 − p)), with p kept off 0 and 1 by a millionth."""
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(kept / (1 - kept))


def recall_by_hand(
    recall: Recall, feature: list[float], model: list[float], cells: Cells, sentence: int
) -> list[float]:
    """P(y) for every word of the vocabulary, written from the formula in plain numbers."""
    projection, center = recall.projection.tolist(), recall.center.tolist()
    tau, beta, delta = recall.scores.tolist()
    query = [
        sum(a * (r - c) for a, r, c in zip(row, feature, center, strict=True)) for row in projection
    ]
    real = [k for k in range(cells.mask.shape[1]) if bool(cells.mask[sentence, k])]
    approved = any(float(cells.approved[sentence, k]) for k in real)
    if not real or (max(float(cells.coverage[sentence, k]) for k in real) < 0.25 and not approved):
        return model
    distances, energies, values = [], [], []
    for k in real:
        key = cells.keys[sentence, k].tolist()
        distance = sum((q - x) ** 2 for q, x in zip(query, key, strict=True))
        match, origin = float(cells.match[sentence, k]), float(cells.approved[sentence, k])
        distances.append(distance)
        energies.append(-tau * distance + beta * match + delta * origin)
        values.append(int(cells.types[sentence, cells.words[sentence, k]]))
    total = sum(math.exp(energy - max(energies)) for energy in energies)
    weights = [math.exp(energy - max(energies)) / total for energy in energies]
    end = sum(p for p, y in zip(weights, values, strict=True) if y == EOS)
    q = [0.0] * len(model)
    for p, y in zip(weights, values, strict=True):
        if y != EOS:
            q[y] += p / (1 - end)
    best = max(range(len(q)), key=q.__getitem__)
    inputs = [
        1.0,
        math.log(tau * min(distances) + 0.1),
        logit(max(model)),
        logit(max(q)),
        math.log(model[best]),
        max(float(cells.coverage[sentence, k]) for k in real),
        sum(p * float(cells.match[sentence, k]) for p, k in zip(weights, real, strict=True)),
        sum(p * float(cells.approved[sentence, k]) for p, k in zip(weights, real, strict=True)),
    ]
    activation = sum(w * x for w, x in zip(recall.gate.tolist(), inputs, strict=True))
    gate = (1 - end) / (1 + math.exp(-activation))
    return [(1 - gate) * p + gate * r for p, r in zip(model, q, strict=True)]


def mixed(recall: Recall, features: Tensor, logits: Tensor, cells: Cells) -> Tensor:
    """P(y) by the code that search uses; a row for each sentence."""
    logits = logits.clone()
    total = recall.mix(logits, torch.logsumexp(logits, dim=-1), features, cells)
    return torch.exp(logits - total[:, None])


def test_recall_equals_its_equation() -> None:
    recall, cells = make_recall(), make_cells([4, 0, 7, 2])
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(4, HIDDEN, generator=generator, dtype=torch.float64)
    logits = torch.randn(4, VOCABULARY, generator=generator, dtype=torch.float64)
    found = mixed(recall, features, logits, cells)
    model = torch.softmax(logits, dim=-1).tolist()
    for sentence in range(4):
        feature = features[sentence].tolist()
        expected = recall_by_hand(recall, feature, model[sentence], cells, sentence)
        torch.testing.assert_close(found[sentence], torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_recalled_probabilities_are_probabilities(seed: int, counts: list[int]) -> None:
    recall, cells = make_recall(seed), make_cells(counts, seed)
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(len(counts), HIDDEN, generator=generator, dtype=torch.float64)
    logits = torch.randn(len(counts), VOCABULARY, generator=generator, dtype=torch.float64)
    found = mixed(recall, features, logits, cells)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(len(counts), dtype=torch.float64))
    assert (found >= 0).all()


def test_without_cells_nothing_changes_bit_for_bit() -> None:
    recall, cells = make_recall().float(), make_cells([3, 0])
    cells = dataclasses.replace(
        cells,
        keys=cells.keys.float(),
        squares=cells.squares.float(),
        coverage=cells.coverage.float(),
        match=cells.match.float(),
        approved=cells.approved.float(),
        types=torch.tensor([[EOS, 4, 5, 6], [PAD] * 4]),
    )
    logits, features = torch.randn(2, VOCABULARY), torch.randn(2, HIDDEN)
    total, changed = torch.logsumexp(logits, dim=-1), logits.clone()
    after = recall.mix(changed, total, features, cells)
    assert after[1] == total[1]
    assert torch.equal(changed[1, 1:], logits[1, 1:])  # the column of padding is never produced
    assert not torch.equal(changed[0], logits[0])


def test_padding_cells_do_not_matter() -> None:
    recall, cells = make_recall(), make_cells([4, 7])
    features, logits = torch.randn(2, HIDDEN).double(), torch.randn(2, VOCABULARY).double()
    expected = mixed(recall, features, logits, cells)
    keys = cells.keys.masked_fill(~cells.mask[:, :, None], 100.0)
    other = dataclasses.replace(cells, keys=keys, squares=Cells.square(keys, cells.mask))
    found = mixed(recall, features, logits, other)
    torch.testing.assert_close(found, expected)


def test_where_the_pair_ends_the_model_decides() -> None:
    recall, cells = make_recall(), make_cells([3])
    ends = dataclasses.replace(cells, words=torch.zeros_like(cells.words))
    features, logits = torch.randn(1, HIDDEN).double(), torch.randn(1, VOCABULARY).double()
    torch.testing.assert_close(mixed(recall, features, logits, ends), torch.softmax(logits, dim=-1))


def test_gradient_of_recall() -> None:
    recall, cells = make_recall(), make_cells([4, 6])
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(2, 3, HIDDEN, generator=generator, dtype=torch.float64)
    log_types = torch.log_softmax(torch.randn(2, 3, 4, generator=generator).double(), dim=-1)
    surest = torch.full((2, 3), 0.6, dtype=torch.float64)
    parameters = (recall.projection, recall.center, recall.scores, recall.gate)
    recall.scores.data[0] = 0.01

    def run(*values: Tensor) -> Tensor:
        names = ("projection", "center", "scores", "gate")
        found = torch.func.functional_call(
            recall, dict(zip(names, values, strict=True)), (features, log_types, surest, cells)
        )
        return found.mix(log_types)[1]

    inputs = tuple(p.detach().clone().requires_grad_() for p in parameters)
    assert torch.autograd.gradcheck(run, inputs, eps=1e-7, atol=1e-4)


# Cells.


def pair(src: str, trg: str, coverage: float = 0.5) -> KnownPair:
    """An approved pair."""
    return KnownPair(src, trg, round(100 * coverage) // 2, coverage, "", 0, "")


@pytest.fixture
def recaller(make_model: MakeModel) -> Recaller:
    """A sentence model that recalls, in single precision."""
    return Recaller(make_model().float().eval(), make_recall().float(), VOCABULARIES)


KNOWN = [
    [pair("s1 s2 s3", "w1 w2"), pair("s4", "w3 w3", 0.9)],
    [],
    [pair("s2 s2", "w2 unseen w4")],
]


def test_cells_are_what_the_output_layer_saw_before_each_word(recaller: Recaller) -> None:
    model, recall = recaller.model, recaller.recall
    (cells,) = recaller.read([("s1 s2 s3", "w1 w2")])
    src = torch.tensor([[*VOCABULARIES[0].encode("s1 s2 s3"), EOS]])
    trg_in = torch.tensor([[2, *VOCABULARIES[1].encode("w1 w2")]])
    with torch.no_grad():
        decoded = model(src, torch.tensor([4]), trg_in)
        expected = recall.project(decoded.packed_features).round().clamp(-127, 127)
    assert cells.words.tolist() == [*VOCABULARIES[1].encode("w1 w2"), EOS]
    assert np.abs(cells.keys.astype(int) - expected.numpy()).max() <= 1  # of rounding


def test_cells_of_a_batch_are_those_of_its_sentences(recaller: Recaller) -> None:
    cells = recaller.cells(KNOWN, recaller.gather(KNOWN))
    assert cells is not None
    assert cells.mask.sum(dim=1).tolist() == [6, 0, 3]  # one word is unknown: it has no cell
    words = [cells.types[s, cells.words[s]][cells.mask[s]].tolist() for s in range(3)]
    encode = VOCABULARIES[1].encode
    assert words[0] == [*encode("w1 w2"), EOS, *encode("w3 w3"), EOS]
    assert words[2] == [*encode("w2"), *encode("w4"), EOS]
    assert UNK not in cells.types
    assert cells.coverage[0].tolist() == pytest.approx([0.5] * 3 + [0.9] * 3)
    assert cells.match[0].tolist() == pytest.approx([0.25] * 3 + [0.45] * 3)
    row = CellRow.of(KNOWN[0], recaller.gather(KNOWN), recaller.width)
    assert row.pairs.tolist() == [0, 0, 0, 1, 1, 1]
    assert row.places.tolist() == [0, 1, 2, 0, 1, 2]


def test_nobody_knows_anything(recaller: Recaller) -> None:
    assert recaller.cells([[], []], {}) is None
    assert look_up(recaller, [[], []])([0]) is None
    assert look_up(None, KNOWN)([0]) is None
    assert Recalls.of(recaller, [[], []]) is None


def test_stored_cells_come_back(tmp_path: Path) -> None:
    parts = {
        2: PairCells(np.arange(6, dtype=np.int8).reshape(2, 3), np.array([5, EOS], np.uint32)),
        5: PairCells(np.full((1, 3), -7, dtype=np.int8), np.array([70_000], np.uint32)),
    }
    entries = [EntryCells(number, f"s{number}", "t", cells) for number, cells in parts.items()]
    write_cells(tmp_path / "cells", 3, entries, 6)
    store = CellStore.open(tmp_path / "cells", 3)
    assert store is not None
    assert store.last_id == 6
    for number in range(9):
        found = store.get(number, f"s{number}", "t")
        assert store.get(number, "another text", "t") is None
        if number in parts:
            assert found is not None
            assert found.keys.tolist() == parts[number].keys.tolist()
            assert found.words.tolist() == parts[number].words.tolist()
        else:
            assert found is None
    assert CellStore.open(tmp_path / "cells", 4) is None  # of another width
    (tmp_path / "cells" / "keys").write_bytes(b"")
    assert CellStore.open(tmp_path / "cells", 3) is None  # damaged
    assert CellStore.open(tmp_path / "nothing", 3) is None


# Search and scoring.

SRC = [[5, 6, 7, EOS], [4, EOS], [8, 9, 9, EOS]]
VARIANTS = {
    "sentence": ModelConfig(hidden=5, embedding=4, alignment=3),
    "context": ModelConfig(hidden=5, embedding=4, alignment=3, memory="both", fusion="context"),
    "output": ModelConfig(hidden=5, embedding=4, alignment=3, memory="both", fusion="output"),
    "jean2017": ModelConfig(hidden=5, embedding=4, alignment=3, context="jean2017"),
}


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", VARIANTS)
def test_what_search_finds_has_the_probability_that_scoring_gives(
    make_model: MakeModel, name: str, beam: int
) -> None:
    model = make_model(VARIANTS[name]).float()
    recaller = Recaller(model, make_recall().float(), VOCABULARIES)
    cells_of = look_up(recaller, KNOWN)
    config = SearchConfig(beam=beam, max_length_extra=3)
    predictor = Predictor(model, recaller=recaller)
    src, lengths = pad(SRC)
    found = search(predictor, src, lengths, config, cells=cells_of([0, 1, 2]))
    recalls = Recalls.of(recaller, KNOWN)
    targets = [list(best[0].tokens) for best in found]
    (scores,) = score_translations(model, [SRC], [targets], 1000, recalls=recalls)
    assert [best[0].log_probability for best in found] == pytest.approx(scores, abs=1e-4)
    plain = search(Predictor(model), src, lengths, config)
    (without,) = score_translations(model, [SRC], [targets], 1000)
    assert scores[1] == without[1]  # it knows nothing
    assert scores[0] != pytest.approx(without[0], abs=1e-4)
    assert found[1][0].tokens == plain[1][0].tokens
    assert found[1][0].log_probability == plain[1][0].log_probability
    for i in range(3):  # one by one as in a batch
        (alone,) = search(
            predictor, src[i : i + 1, : lengths[i]], lengths[i : i + 1], config, cells=cells_of([i])
        )
        assert alone[0].tokens == found[i][0].tokens
        assert alone[0].log_probability == pytest.approx(found[i][0].log_probability, abs=1e-4)


def test_words_of_cells_are_allowed_whatever_the_shortlist_says(make_model: MakeModel) -> None:
    model = make_model().float()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[4:] = -20.0  # the model alone would say nothing
    recall = make_recall().float()
    with torch.no_grad():
        recall.gate.copy_(torch.tensor([9.0, *[0.0] * 7]))
    recaller = Recaller(model, recall, VOCABULARIES)
    known = [[pair("s1 s2 s3", "w4 w4 w4 w4 w4", 1.0)]]
    nothing = torch.zeros(0, dtype=torch.long)
    shortlist = Shortlist(nothing, nothing, nothing, (11, 9))
    config = SearchConfig(beam=2)
    cells = look_up(recaller, known)([0])
    (listed,) = search(
        Predictor(model, shortlist=shortlist, recaller=recaller), *pad(SRC[:1]), config, cells=cells
    )
    (every,) = search(Predictor(model, recaller=recaller), *pad(SRC[:1]), config, cells=cells)
    assert 8 in listed[0].tokens
    assert listed[0].tokens == every[0].tokens
    rounded = Predictor(model, EightBitProduct, shortlist, recaller)
    (compact,) = search(rounded, *pad(SRC[:1]), config, cells=cells)
    assert 8 in compact[0].tokens


# Fitting.


def test_projection_keeps_distances_and_fits_into_8_bits() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.tanh(3 * torch.randn(400, 20, generator=generator)) + 0.5
    recall = Recall(20)
    with torch.no_grad():
        learn_projection(features, recall)
        keys = recall.project(features)
    unit = float(recall.projection[0].detach().norm())
    found = torch.cdist(keys[:20], keys[20:40]) / unit
    torch.testing.assert_close(found, torch.cdist(features[:20], features[20:40]))
    assert 90 < float(keys.abs().max()) <= 127
    again = Recall(20)
    with torch.no_grad():
        learn_projection(features.flip(0), again)
    torch.testing.assert_close(again.projection, recall.projection, atol=1e-2, rtol=0)


def test_fitting_opens_the_gate_for_what_is_known_and_closes_it_for_what_is_not(
    make_model: MakeModel,
) -> None:
    """References that are known pairs themselves are recalled; strangers are not."""
    model = make_model().float()
    generator = torch.Generator().manual_seed(4)
    sentences = [torch.randint(4, 9, (4,), generator=generator).tolist() for _ in range(30)]
    texts = [
        (VOCABULARIES[0].decode(s), VOCABULARIES[1].decode(list(reversed(s)))) for s in sentences
    ]
    encoder = Recaller(model, Recall(HIDDEN), VOCABULARIES)
    pairs = encoder._encode(texts)
    own = [[pair(*text, 1.0)] for text in texts]
    strangers = [[dataclasses.replace(own[(i + 7) % 30][0], coverage=0.05)] for i in range(30)]
    recall, fit = fit_recall(model, VOCABULARIES, pairs, [own, strangers])
    assert fit.after < 0.6 * fit.before
    recaller = Recaller(model, recall, VOCABULARIES)
    sources, targets = [p.src for p in pairs], [p.trg for p in pairs]
    totals = []
    for known in (own, [[] for _ in own], strangers):
        recalls = Recalls.of(recaller, known)
        (scores,) = score_translations(model, [sources], [targets], 1000, recalls=recalls)
        totals.append(math.fsum(scores) / 30)
    assert totals[0] > totals[1] + 2
    assert totals[2] > totals[1] - 0.5
    again, _ = fit_recall(model, VOCABULARIES, pairs, [own, strangers])
    both = zip(recall.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)


# A trained model, its memory and approved sentences.


@pytest.fixture(scope="module")
def sentence_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence model that keeps its training set."""
    directory = tmp_path_factory.mktemp("sentence")
    train(toy_config(directory, "tm.fit=true", "tm.keep=true"), directory / "run")
    return directory / "run"


@pytest.fixture(scope="module")
def document_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with both memories that keeps its training set."""
    directory = tmp_path_factory.mktemp("document")
    train(document_config(directory, "tm.fit=true", "tm.keep=true"), directory / "run")
    return directory / "run"


@pytest.fixture(params=["sentence_run", "document_run"])
def run(request: pytest.FixtureRequest) -> Path:
    """Either of them."""
    path: Path = request.getfixturevalue(request.param)
    return path


DOCUMENT = ["s1 s2 s3", "s4 s5", "s1 s2 s4", "", "s5 s5 s6 s7"]


def memory_of(path: Path, *pairs: tuple[str, str]) -> TranslationMemory:
    """A memory of one document."""
    with MemoryWriter.build(path) as writer:
        writer.add([Document("book", tuple(SentencePair(*each) for each in pairs))], "book.tmx")
    return TranslationMemory.open(path)


def test_training_learns_to_recall_and_prepares_its_memory(run: Path) -> None:
    events = [line for line in read_log(run) if line["event"] == "recall"]
    assert events
    assert all(event["with_recall"] < event["dev_perplexity"] for event in events)
    translator = Translator.load(run)
    (memory,) = translator.memories
    recallers = {translator.system.recaller, translator.system.base_recaller}
    assert len(recallers) == len(events)
    assert all(recaller is not None and recaller.is_prepared(memory) for recaller in recallers)
    assert sorted(p.name for p in (memory.path / "cells").iterdir()) == sorted(
        recaller.name for recaller in recallers if recaller is not None
    )


def test_prepared_cells_are_those_that_are_read_now(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    recaller, (memory,) = translator.system.base_recaller, translator.memories
    assert recaller is not None
    for entry in list(memory.entries())[:5]:
        match = Match(entry, 100, 1.0)
        stored = recaller._prepared(KnownPair.from_memory(memory, match))
        (read,) = recaller.read([(entry.src, entry.trg)])
        assert stored is not None
        assert stored.words.tolist() == read.words.tolist()
        assert np.abs(stored.keys.astype(int) - read.keys).max() <= 1  # batches round otherwise


def test_training_again_changes_nothing(sentence_run: Path) -> None:
    before = (sentence_run / "recall.safetensors").read_bytes()
    changed = (sentence_run / "recall.safetensors").stat().st_mtime_ns
    train(load_config(sentence_run / "config.toml"), sentence_run)
    assert (sentence_run / "recall.safetensors").read_bytes() == before
    assert (sentence_run / "recall.safetensors").stat().st_mtime_ns == changed


def test_without_known_pairs_every_result_is_as_before(run: Path, tmp_path: Path) -> None:
    plain = Translator.load(run, own_memory=False)
    unable = Translator(dataclasses.replace(plain.trained, base_recall=None, document_recall=None))
    empty = memory_of(tmp_path / "other", ("q q q", "r r r"))
    expected = unable.translate(DOCUMENT)
    for found in (plain.translate(DOCUMENT), plain.translate(DOCUMENT, memories=[empty])):
        assert found.history == expected.history
        for ours, theirs in zip(found.candidates, expected.candidates, strict=True):
            assert ours[0].log_probability == theirs[0].log_probability
        assert found.known == [[] for _ in DOCUMENT]


def test_approved_sentences_stay_and_are_recalled(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    odd = "t1  t2 – t3 "
    found = translator.translate(DOCUMENT, approved={0: odd})
    assert found.sentences[0] == odd  # to the letter
    assert all(sentences[0] == odd for sentences in found.history)
    assert found.approved == [0]
    assert [p.trg for p in found.known[2]] == [odd]
    assert found.known[0] == []
    plain = translator.translate(DOCUMENT)
    assert found.candidates[2][0].log_probability != plain.candidates[2][0].log_probability
    again = translator.translate(DOCUMENT, approved={0: odd})
    assert again.sentences == found.sentences


def test_approved_sentences_are_cells_of_the_target_memory(document_run: Path) -> None:
    translator = Translator.load(document_run, own_memory=False)
    deaf = Translator(
        dataclasses.replace(translator.trained, base_recall=None, document_recall=None)
    )
    plain = deaf.translate(DOCUMENT, passes=1)
    found = deaf.translate(DOCUMENT, passes=1, approved={0: "t9 t9 t9 t9"})
    assert found.target_weights is not None
    assert plain.target_weights is not None
    assert not torch.equal(found.target_weights[1], plain.target_weights[1])


def test_approving_goes_on_from_where_a_document_stands(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    document = translator.translate(DOCUMENT)
    assert document.approved == []
    document = translator.approve(document, 0, "t1 t2 t3")
    document = translator.approve(document, 1, "t4 t9")
    expected = translator.translate(DOCUMENT, approved={0: "t1 t2 t3", 1: "t4 t9"})
    assert document.sentences == expected.sentences
    assert document.approved == [0, 1]
    assert document.known == expected.known
    assert document.recall is not None
    assert expected.recall is not None
    for ours, theirs in zip(document.recall, expected.recall, strict=True):
        assert [word.text for word in ours] == [word.text for word in theirs]
        assert [w.gate for w in ours] == pytest.approx([w.gate for w in theirs], abs=1e-5)
    changed = translator.approve(document, 1, "t4 t5")
    assert changed.sentences[1] == "t4 t5"
    with pytest.raises(UserError, match="no sentence 7"):
        translator.approve(document, 7, "t1")


def test_sentences_that_know_nothing_new_are_not_translated_again(
    sentence_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    document = translator.translate(DOCUMENT)
    searched = []
    before = descent.search
    monkeypatch.setattr(
        descent, "search", lambda *a, **k: searched.append(len(a[1])) or before(*a, **k)
    )
    translator.approve(document, 0, "t1 t2 t3")
    assert sum(searched) == 1  # the third sentence shares words with the first


def test_an_exact_match_is_taken_as_it_is(run: Path, tmp_path: Path) -> None:
    memory = memory_of(
        tmp_path / "tm",
        ("s4 s5", "Four, five!"),
        ("s9", "nine"),
        ("s4 s5", "4 5"),
        ("s4 s5", "4 5"),
    )
    translator = Translator.load(run, own_memory=False)
    found = translator.translate(DOCUMENT, memories=[memory])
    assert found.sentences[1] == "4 5"  # the more frequent one
    assert found.known[1][0].score == 100
    assert [p.trg for p in found.known[1]] == ["4 5", "Four, five!"]
    assert found.recall is not None
    assert [(w.text, w.share, w.sources[0].pair) for w in found.recall[1]] == [
        ("4", 1.0, 0),
        ("5", 1.0, 0),
    ]
    approved = translator.translate(DOCUMENT, memories=[memory], approved={1: "mine"})
    assert approved.sentences[1] == "mine"
    in_context = memory_of(tmp_path / "context", ("s1 s2 s3", "x"), ("s4 s5", "in context"))
    both = translator.translate(DOCUMENT, memories=[memory, in_context])
    assert both.sentences[1] == "in context"
    assert both.known[1][0].score == 101


def test_each_word_tells_what_it_was_recalled_from(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    for recall in (translator.trained.base_recall, translator.trained.document_recall):
        if recall is not None:
            with torch.no_grad():
                recall.gate.copy_(torch.tensor([3.0, *[0.0] * 7]))  # wide open
    found = translator.translate(DOCUMENT, approved={0: "t1 t2 t3", 1: "t4 t5"})
    assert found.recall is not None
    assert found.recall[0] == []  # it was given
    assert found.recall[3] == []
    words = found.recall[2]
    assert [word.text for word in words] == found.sentences[2].split()
    for word in words:
        assert 0 <= word.share <= 1
        assert 0 <= word.gate <= 1
        for source in word.sources:
            assert source.word in found.known[2][source.pair].trg.split()
            assert source.word == word.text
    assert any(word.share > 0.5 for word in words)
    json.dumps(found.to_dict())


def test_a_translator_at_work_knows_what_stands_before(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    references = {t: text.replace("s", "t") for t, text in enumerate(DOCUMENT)}
    (found,) = translator.translate_documents(
        [DOCUMENT], known=Knowledge([references], rehearse=True)
    )
    assert found.approved == []
    assert [{p.place for p in known} for known in found.known] == [
        set(),
        set(),
        {0, 1},
        set(),
        {1},
    ]


def test_exports_recall_and_keep_people_s_text_only_where_asked(
    sentence_run: Path, tmp_path: Path
) -> None:
    export_model(sentence_run, tmp_path / "plain", 5, 5)
    assert not (tmp_path / "plain" / "memory").exists()
    export_model(sentence_run, tmp_path / "full", 5, 5, with_memory=True)
    plain, full = Translator.load(tmp_path / "plain"), Translator.load(tmp_path / "full")
    assert plain.memories == ()
    (memory,) = full.memories
    assert full.system.base_recaller is not None
    assert full.system.base_recaller.is_prepared(memory)  # read by the run, not again
    assert full.translate(DOCUMENT).sentences != plain.translate(DOCUMENT).sentences
    assert plain.translate(DOCUMENT, approved={0: "t9 t9"}).sentences[0] == "t9 t9"


def test_wrong_knowledge_is_refused(sentence_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(sentence_run)
    for approved, message in (
        ({9: "x"}, "no sentence 9"),
        ({"0": "x"}, "no sentence '0'"),
        ({-1: "x"}, "no sentence -1"),
        ({0: None}, "not a text"),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate(DOCUMENT, approved=approved)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no such translation memory"):
        translator.translate(DOCUMENT, memories=[tmp_path / "nothing"])
    with MemoryWriter.build(tmp_path / "fi", "fi", "en") as writer:
        writer.add([Document("d", (SentencePair("a", "b"),))], "o")
    data = dataclasses.replace(translator.config.data, src_language="et", trg_language="en")
    config = dataclasses.replace(translator.config, data=data)
    estonian = Translator(dataclasses.replace(translator.trained, config=config))
    with pytest.raises(UserError, match="from fi to en"):
        estonian.translate(DOCUMENT, memories=[tmp_path / "fi"])
    unable = Translator(dataclasses.replace(translator.trained, base_recall=None))
    with pytest.raises(UserError, match="not learned to recall"):
        unable.translate(DOCUMENT, memories=[memory_of(tmp_path / "tm", ("s1", "t1"))])
    with pytest.raises(UserError, match="1 translations are given for 2 documents"):
        translator.translate_documents([DOCUMENT] * 2, known=Knowledge([{}]))


def test_known_pairs_of_a_document_cover_its_sentences() -> None:
    texts = ["red green", "green blue", "red blue black", "white"]
    approved = {0: "a", 1: "b", 3: "d"}
    found = find_known(texts, (), approved, MemoryConfig())
    assert [[p.trg for p in pairs] for pairs in found] == [["b"], ["a"], ["a", "b"], []]
    limited = find_known(texts, (), approved, MemoryConfig(approved=1))
    assert [len(pairs) for pairs in limited] == [1, 1, 1, 0]
    assert find_known(texts, (), approved, MemoryConfig(approved=0)) == [[], [], [], []]


# What a review found.


def test_an_empty_document_knows_nothing(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    assert translator.translate([]).sentences == []
    first, second = translator.translate_documents([[], ["s1 s2"]])
    assert (first.sentences, len(second.sentences)) == ([], 1)


def test_given_sentences_are_read_as_they_are_scored(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    found = translator.translate(["s1 s2", "s3"], approved={0: "t1 t2"}).candidates[0][0]
    scored = translator.score(["s1 s2"], ["t1 t2"])
    assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-4)
    assert found.attention is not None
    assert found.attention.shape == (3, 3)


def test_what_was_not_explained_can_be_approved(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    (document,) = translator.translate_documents([["s1 s2", "s1 s3"]])
    assert document.recall is None
    again = translator.approve(document, 0, "t1 t2")
    assert (again.sentences[0], again.recall) == ("t1 t2", None)


def test_the_order_of_approving_does_not_matter(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    texts = ["s1 s2", "s3", "s1 s2", "s1 s2"]
    document = translator.approve(translator.translate(texts), 2, "LATER")
    document = translator.approve(document, 0, "FIRST")
    anew = translator.translate(texts, approved={0: "FIRST", 2: "LATER"})
    assert document.sentences == anew.sentences
    assert document.sentences[3] == "FIRST"


def test_line_breaks_of_a_memory_do_not_shift_lines(sentence_run: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path / "tm", ("s1 s2", "one\rtwo\u2028three"))
    translator = Translator.load(sentence_run, own_memory=False)
    found = translator.translate(["s1 s2", "s1 \ud800"], memories=[memory])
    assert found.sentences[0] == "one two three"
    assert len(found.sentences) == 2  # half a surrogate pair is no reason to fail


def test_blank_lines_are_no_context(sentence_run: Path, tmp_path: Path) -> None:
    with MemoryWriter.build(tmp_path / "tm") as writer:
        pairs = (SentencePair("s9", "nine"), SentencePair("s1 s2", "AFTER"))
        documents = [Document("x", pairs), Document("y", (SentencePair("s1 s2", "BEGINNING"),))]
        writer.add(documents, "o")
    translator = Translator.load(sentence_run, own_memory=False)
    find = [tmp_path / "tm"]
    assert translator.translate(["s9", "", "s1 s2"], memories=find).sentences[2] == "AFTER"
    assert translator.translate(["s1 s2"], memories=find).sentences[0] == "BEGINNING"
    part = Knowledge(memories=(TranslationMemory.open(tmp_path / "tm"),), befores=["s9"])
    (found,) = translator.translate_documents([["s1 s2"]], known=part)
    assert found.sentences == ["AFTER"]


def test_cells_of_another_text_are_not_taken(sentence_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    recaller = translator.system.base_recaller
    assert recaller is not None
    first = memory_of(tmp_path / "tm", ("s1 s2", "t1 t2"))
    recaller.prepare(first)
    (entry,) = first.entries()
    known = KnownPair.from_memory(first, Match(entry, 100, 1.0))
    assert recaller._prepared(known) is not None
    other = dataclasses.replace(known, trg="t5 t6 t7")
    assert recaller._prepared(other) is None


def test_recall_of_other_weights_is_not_taken(tmp_path: Path) -> None:
    config = toy_config(tmp_path, "tm.fit=true", "tm.keep=true")
    run = tmp_path / "run"
    train(config, run)
    stage = run / "stage1.safetensors"
    before = load_model(run)
    assert before.base_recall is not None
    save_weights(stage, toy_model(before))
    assert load_model(run).base_recall is None
    assert Translator.load(run).memories == ()
    (run / "recall.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="wholedoc tm fit"):
        load_model(run)


def toy_model(trained: TrainedModel) -> torch.nn.Module:
    """The sentence model with other weights."""
    with torch.no_grad():
        for parameter in trained.base.parameters():
            parameter.mul_(1.01)
    return trained.base


def test_a_small_memory_is_recalled(sentence_run: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path / "tm", ("s1 s2 s3 s4 s5", "t1 t2 t3 t4 t5"))
    translator = Translator.load(sentence_run, own_memory=False)
    ((known,),) = translator.translate(["s1 s2 s3 s4 s6"], memories=[memory]).known
    assert known.score == 80
    assert known.coverage > 0.5


def test_a_dev_set_that_knows_nothing_leaves_a_model_that_translates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(toy_config(tmp_path, "tm.fit=true", "tm.pairs=0", "tm.approved=0"), tmp_path / "run")
    assert "cannot be fitted" in capsys.readouterr().err
    assert Translator.load(tmp_path / "run").translate(["s1"]).sentences


def test_a_pickled_translator_holds_no_memory(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    before = len(pickle.dumps(translator))
    expected = translator.translate(DOCUMENT).sentences
    after = pickle.dumps(translator)
    assert len(after) < 1.1 * before
    assert pickle.loads(after).translate(DOCUMENT).sentences == expected


def test_the_worst_pairs_are_left_out_where_there_are_too_many(
    recaller: Recaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wholedoc.decoding.recall._MOST_CELLS", 6)
    weak = dataclasses.replace(pair("s1", "w1 w1", 0.3), memory=Path("tm"))
    known = [weak, dataclasses.replace(weak, coverage=0.6, trg="w2 w2"), pair("s3", "w3 w3", 0.1)]
    row = CellRow.of(known, recaller.gather([known]), recaller.width)
    assert sorted(set(row.pairs.tolist())) == [1, 2]  # the approved one, and the better match
