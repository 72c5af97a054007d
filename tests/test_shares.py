"""Shares of an update: everything once, and no process has much more to do than another."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wholedoc.benchmark.workload import make_workload
from wholedoc.config import DocumentStageConfig, ModelConfig
from wholedoc.corpus.batches import DocumentBatches, SentenceBatches
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.shares import cut, deal
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.objective import DocumentSet
from wholedoc.training.tasks import document_task

SIZES = (20, 22)
LENGTHS = st.lists(st.integers(1, 10_000), max_size=80)
RANKS = st.integers(1, 40)
SMAPS = Path("/proc/self/smaps")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return make_workload(tmp_path_factory.mktemp("corpus"), SIZES, (4, 5))


@pytest.mark.parametrize("way", [deal, cut])
@given(lengths=LENGTHS, ranks=RANKS)
def test_every_item_is_in_one_share_and_shares_are_balanced(
    way: Callable[..., Iterable[int]], lengths: list[int], ranks: int
) -> None:
    sizes = np.array(lengths, dtype=np.int64)
    shares = [list(way(sizes, rank, ranks)) for rank in range(ranks)]
    assert sorted(item for share in shares for item in share) == list(range(len(sizes)))
    assert all(share == sorted(share) for share in shares)
    loads = [int(sizes[share].sum()) for share in shares]
    assert max(loads) <= sum(loads) / ranks + max(lengths, default=0)
    if way is deal:
        assert max(loads) - min(loads) <= max(lengths, default=0)


def test_shares_are_near_the_mean_where_items_are_small() -> None:
    """A plain deal without turning back would give the first share 100 more than the last."""
    sizes = np.arange(1, 401)
    loads = [int(sizes[deal(sizes, rank, 2)].sum()) for rank in range(2)]
    assert loads == [sizes.sum() / 2] * 2


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_the_shares_of_a_batch_keep_its_order(corpus: EncodedCorpus, ranks: int) -> None:
    """The longest translation first, as the decoder wants it."""
    batches = SentenceBatches(corpus, 200, seed=1)
    for batch in batches.epoch(1)[:20]:
        shares = [batches.share(batch, rank, ranks) for rank in range(ranks)]
        assert sorted(np.concatenate(shares)) == sorted(batch)
        for share in shares:
            assert (np.diff(corpus.trg_lengths[share]) <= 0).all()


@pytest.mark.parametrize("tokens", [0, 300])
def test_a_document_is_cut_rather_than_left_to_one_process(
    corpus: EncodedCorpus, tokens: int
) -> None:
    batches = DocumentBatches(corpus, tokens, seed=1)
    words = corpus.src_lengths + corpus.trg_lengths
    for group in batches.epoch(1)[:20]:
        shares = [batches.share(group, rank, 3) for rank in range(3)]
        found = [t for share in shares for part in share for t in part.sentences]
        assert found == [t for document in group for t in document]
        assert all(set(p.sentences) <= set(p.document) for share in shares for p in share)
        loads = [sum(words[list(p.sentences)].sum() for p in share) for share in shares]
        assert max(loads) <= sum(loads) / 3 + words[found].max()
        # At most two documents of a share are read by others too.
        assert all(sum(p.sentences != p.document for p in share) <= 2 for share in shares)


@pytest.mark.parametrize(
    "variant",
    [{"memory": "both", "fusion": "context"}, {"context": "prevtrg"}, {"context": "jean2017"}],
    ids=str,
)
def test_parts_of_documents_have_the_gradient_of_the_whole(
    corpus: EncodedCorpus, variant: dict[str, str]
) -> None:
    config = ModelConfig(hidden=3, embedding=4, alignment=2, **variant)  # type: ignore[arg-type]
    model = TranslationModel(config, *SIZES).double()
    initialise(model, seed=1)
    random = np.random.default_rng(1)
    vectors, states = (random.standard_normal((len(corpus), width)) for width in (6, 3))
    data = DocumentSet(corpus, vectors, states)
    task = document_task(model, data, data, DocumentStageConfig(batch_tokens=60), seed=1)
    update = tuple(corpus.document_sentences(d) for d in (4, 0, 7))
    found = []
    for ranks in (1, 3):
        model.zero_grad()
        losses = [task.backward(update, ProcessGroup(rank, ranks)) for rank in range(ranks)]
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        found.append((*np.sum(losses, axis=0), gradients))
    whole, parts = found
    assert parts[:2] == pytest.approx(whole[:2])
    torch.testing.assert_close(parts[2], whole[2])


@pytest.mark.skipif(not SMAPS.exists(), reason="only Linux says which pages are in memory")
def test_a_rank_reads_the_pages_of_its_own_sentences(tmp_path: Path) -> None:
    """Token ids are mapped: what is not asked for is not in the memory of a process."""
    corpus = make_workload(tmp_path, SIZES, (400, 500))
    ids = tmp_path / "src.ids"
    assert _resident(ids) == 0
    (part,) = DocumentBatches(corpus, 0, seed=1).share([corpus.document_sentences(0)], 0, 2)
    for t in part.sentences:
        corpus.src(t).sum()
    # The system maps some pages around the one that was asked for, of half a megabyte.
    assert 0 < _resident(ids) < ids.stat().st_size / 2


def _resident(file: Path) -> int:
    """Bytes of a mapped file that are in this process's memory."""
    found, here = 0, False
    for line in SMAPS.read_text(encoding="utf-8").splitlines():
        if "-" in line.split(" ", 1)[0]:
            here = line.endswith(str(file))
        elif here and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found
