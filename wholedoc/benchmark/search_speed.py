"""The speed of search, in several ways and with documents of several lengths."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from wholedoc.benchmark.workload import Material
from wholedoc.config import SearchConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.model.language import SentenceVectors
from wholedoc.store.shortlist import learn_shortlist

DOCUMENT_SIZES = (10, 50, 200, 1000, 5000)


@dataclass
class Decoding:
    """A way to translate, and the cost of each of its rounds."""

    name: str
    run: Callable[[], list[DocumentTranslation]]
    seconds: list[float] = field(default_factory=list)
    words: int = 0
    sentences: int = 0

    def round(self) -> None:
        """Translate everything once."""
        start = time.process_time()
        documents = self.run()
        self.seconds.append(time.process_time() - start)
        best = [hypotheses[0] for document in documents for hypotheses in document.passes[-1]]
        self.words, self.sentences = sum(len(b.tokens) + 1 for b in best), len(best)


def searches(material: Material, sentences: int) -> list[Decoding]:
    """Ways to search with the sentence model."""
    model = material.model(material.config.model.without_context(), material.config.stage1).eval()
    system = TranslationSystem(model, model)
    compact = TranslationSystem(model, model, int8=True)
    fast = replace(compact, shortlist=learn_shortlist(material.corpus, material.sizes, 20, 200))
    source = source_of(material.corpus, sentences)
    config = search_config(material)
    ways = {
        "beam5, one by one": (system, replace(config, beam=5, batch_tokens=1)),
        "greedy": (system, replace(config, beam=1)),
        "beam5": (system, replace(config, beam=5)),
        "beam5, int8": (compact, replace(config, beam=5)),
        "beam5, int8, shortlist": (fast, replace(config, beam=5)),
    }
    return [
        Decoding(name, partial(translate_documents, system, [source], config, measure=False))
        for name, (system, config) in ways.items()
    ]


def documents(material: Material, sentences: int) -> dict[int, Decoding]:
    """One pass over the same sentences in documents of each size, both memories, greedily."""
    config = replace(material.config.model, context="none", memory="both", fusion="context")
    base = material.model(config.without_context(), material.config.stage1).eval()
    model = material.model(config, material.config.stage2).eval()
    system = TranslationSystem(model, base, SentenceVectors(material.sizes[0], config))
    source = source_of(material.corpus, sentences)
    search = replace(search_config(material), beam=1, passes=1)
    return {
        size: Decoding(
            str(size),
            partial(
                translate_documents,
                system,
                [source[start : start + size] for start in range(0, sentences, size)],
                search,
                measure=False,
            ),
        )
        for size in DOCUMENT_SIZES
        if size <= sentences
    }


def source_of(corpus: EncodedCorpus, sentences: int) -> list[list[int]]:
    """So many source sentences, from the beginning again where there are fewer."""
    return [corpus.src(t % len(corpus)).tolist() for t in range(sentences)]


def search_config(material: Material) -> SearchConfig:
    """How to search. A model that is not trained goes on and on: as many words as the source."""
    config = replace(material.config.search, order="parallel", shuffle_memory=False)
    if material.weights is None:
        config = replace(config, max_length_factor=1.0, max_length_extra=0)
    return config
