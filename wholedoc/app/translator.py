"""The translator: documents in, documents out, one translation per sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.corpus.vocabulary import EOS, UNK, Vocabulary
from wholedoc.decoding.search import Hypothesis, search
from wholedoc.model.translation import TranslationModel
from wholedoc.training.lexicon import read_lexicon
from wholedoc.training.run import Run


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    log_probability: float
    """log P(y|x)."""
    score: float
    """What it was ranked by: the log-probability, normalised for length."""
    attention: Float[Tensor, "trg_token src_token"]
    """Where each output token, ``</s>`` last, looked in the source."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translations, sentence by sentence."""

    candidates: list[list[Translation]]
    """For each source sentence its translations, best first."""

    @property
    def sentences(self) -> list[str]:
        """The final translations, exactly one per source sentence."""
        return [translations[0].text for translations in self.candidates]

    @property
    def history(self) -> list[list[str]]:
        """The translations after each pass; the sentence model has one."""
        return [self.sentences]


class Translator:
    """A trained model, its vocabularies and its settings of search.

    ``Translator.load("runs/et-en").translate(["Esimene lause.", "Teine lause."]).sentences``
    """

    def __init__(
        self,
        model: TranslationModel,
        src_vocabulary: Vocabulary,
        trg_vocabulary: Vocabulary,
        config: SearchConfig,
        lexicon: dict[str, str],
    ) -> None:
        self.model = model
        self.src_vocabulary = src_vocabulary
        self.trg_vocabulary = trg_vocabulary
        self.config = config
        self.lexicon = lexicon

    @classmethod
    def load(cls, model: str | Path) -> "Translator":
        """Open a run directory."""
        run = Run(Path(model))
        lexicon = read_lexicon(run.lexicon_file) if run.lexicon_file.exists() else {}
        search_config = run.load_config().search
        return cls(run.load_model(), *run.load_vocabularies(), search_config, lexicon)

    def translate(
        self, sentences: Sequence[str], config: SearchConfig | None = None, nbest: int = 1
    ) -> TranslatedDocument:
        """Translate one document, given as its sentences."""
        return self.translate_documents([sentences], config, nbest)[0]

    def translate_documents(
        self,
        documents: Sequence[Sequence[str]],
        config: SearchConfig | None = None,
        nbest: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[TranslatedDocument]:
        """Translate many documents at once; ``progress`` is told of finished sentences and words.

        ``config`` replaces the model's own settings of search.
        """
        config = config or self.config
        texts = [sentence for document in documents for sentence in document]
        encoded = [self._encode(text) for text in texts]
        tokens = max(1, config.batch_tokens // max(config.beam, nbest))
        batches = length_batches([len(sentence) for sentence in encoded], tokens)
        device = next(self.model.parameters()).device

        def run(sentences: list[list[int]]) -> list[list[Hypothesis]]:
            src, lengths = pad(sentences)
            found = search(self.model, src.to(device), lengths.to(device), config, nbest)
            if progress is not None:
                progress(len(sentences), sum(len(best[0].tokens) + 1 for best in found))
            return found

        found = in_order(encoded, batches, run)
        candidates = [
            [self._translation(text, hypothesis, config) for hypothesis in hypotheses]
            for text, hypotheses in zip(texts, found, strict=True)
        ]
        starts = [0]
        for document in documents:
            starts.append(starts[-1] + len(document))
        return [TranslatedDocument(candidates[start:end]) for start, end in pairwise(starts)]

    def _encode(self, text: str) -> list[int]:
        """The numbers of a sentence; one of white space alone has no words."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
        return [*(self.src_vocabulary.encode(text) if text.strip() else []), EOS]

    def _translation(self, text: str, found: Hypothesis, config: SearchConfig) -> Translation:
        tokens = self.trg_vocabulary.to_tokens(found.tokens)
        if config.replace_unknown != "none" and UNK in found.tokens:
            tokens = self._replace_unknown(text, tokens, found, config.replace_unknown == "lexicon")
        # A byte-wise vocabulary can spell a line break, which would shift all lines after it.
        line = " ".join(self.trg_vocabulary.decode_tokens(tokens).splitlines())
        return Translation(line, found.log_probability, found.score, found.attention)

    def _replace_unknown(
        self, text: str, tokens: list[str], found: Hypothesis, use_lexicon: bool
    ) -> list[str]:
        """Put the source word that each ``<unk>`` attends to most, or its translation."""
        words = self.src_vocabulary.tokens(text)
        attended = found.attention[:-1, :-1].argmax(dim=-1).tolist()  # without </s> on both sides
        return [
            (self.lexicon.get(words[i], words[i]) if use_lexicon else words[i])
            if token == UNK
            else name
            for name, token, i in zip(tokens, found.tokens, attended, strict=True)
        ]
