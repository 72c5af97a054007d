"""What a model makes of some dev sentences after an epoch: BLEU and one translation to look at.

For the eye only: search is greedy, the sentences are few, and training does not depend on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import search
from wholedoc.model.memory import Readings
from wholedoc.model.translation import TranslationModel

_GREEDY = SearchConfig(beam=1)


@dataclass(frozen=True)
class DevSample:
    """How some dev sentences are translated."""

    bleu: float
    """BLEU of sacrebleu, between texts as the vocabulary spells them."""
    sentences: int
    """How many sentences it is of."""
    source: str
    """One of them ..."""
    translation: str
    """... its translation ..."""
    reference: str
    """... and the one that was given."""


@dataclass(frozen=True)
class Sampler:
    """Translates dev sentences with a model under training."""

    src_vocabulary: Vocabulary
    trg_vocabulary: Vocabulary
    count: int
    """How many sentences, about."""

    @torch.inference_mode()
    def sample(
        self,
        model: TranslationModel,
        corpus: EncodedCorpus,
        sentences: Sequence[int],
        readings: Readings | None = None,
    ) -> DevSample:
        """Translate given sentences of a corpus, with what each reads; the second is shown."""
        import sacrebleu  # takes a while, and only this needs it

        model.eval()
        device = next(model.parameters()).device
        src, lengths = pad([corpus.src(t) for t in sentences])
        found = search(Predictor(model), src.to(device), lengths.to(device), _GREEDY, 1, readings)
        translations = [self.trg_vocabulary.decode(best[0].tokens) for best in found]
        references = [self.trg_vocabulary.decode(corpus.trg(t)[:-1].tolist()) for t in sentences]
        shown = min(1, len(sentences) - 1)
        return DevSample(
            sacrebleu.corpus_bleu(translations, [references], force=True).score,
            len(sentences),
            self.src_vocabulary.decode(corpus.src(sentences[shown])[:-1].tolist()),
            translations[shown],
            references[shown],
        )
