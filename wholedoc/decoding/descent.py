"""Block coordinate descent: translate each sentence again, given the rest of its document."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import torch

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import Indices, length_batches, pad
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence, shuffle_memories
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.scoring import score_translations
from wholedoc.decoding.search import Hypothesis, search
from wholedoc.kernels import in_threads, one_thread
from wholedoc.model.memory import Readings, concatenate_readings, gather_readings


@one_thread()
@torch.inference_mode()
def translate_documents(
    system: TranslationSystem,
    documents: Sequence[Sequence[Sentence]],
    config: SearchConfig,
    nbest: int = 1,
    progress: Progress | None = None,
    measure: bool = True,
) -> list[DocumentTranslation]:
    """Translate documents of token ids, each sentence ended by ``</s>``.

    Paper: [bcd]. The sentence model translates every sentence by itself; then, in each pass, every
    sentence is translated again given the source memory and the others' current translations. A
    document is done when a pass changes nothing, or after ``config.passes``. The objective is
    computed only if it is to be measured.
    """
    opened = [DocumentTranslation(system, d, config.batch_tokens) for d in documents]
    if config.shuffle_memory:
        shuffle_memories(system, opened)
    descent = _CoordinateDescent(system, config, nbest, progress)
    descent.translate_first(opened)
    if system.reads_documents:
        for _ in range(config.passes):
            going = [d for d in opened if d.sentences and not d.settled]
            if not going:
                break
            if config.order == "parallel":
                descent.update_together(going)
            else:
                descent.update_in_turn(going)
            if measure:
                descent.measure(going)
    return opened


@dataclass(frozen=True)
class _CoordinateDescent:
    """The settings of a descent and its steps, each for many documents at once."""

    system: TranslationSystem
    config: SearchConfig
    nbest: int
    progress: Progress | None

    def translate_first(self, documents: Sequence[DocumentTranslation]) -> None:
        """Pass 0: by the sentence model, or by the document model with the source memory alone."""
        if self.config.first_pass == "document" and self.system.reads_documents:
            self.update_together(documents)
        else:
            sentences = [s for document in documents for s in document.sentences]
            _add_pass(documents, self._search(self.system.base_predictor, sentences))

    def update_together(self, documents: Sequence[DocumentTranslation]) -> None:
        """One more pass: all sentences at once, each seeing the translations of the pass before."""
        readings = [document.read() for document in documents]
        sentences = [s for document in documents for s in document.sentences]
        _add_pass(documents, self._search(self.system.predictor, sentences, readings))
        for document, read in zip(documents, readings, strict=True):
            document.readings = read

    def update_in_turn(self, documents: Sequence[DocumentTranslation]) -> None:
        """One more pass: sentence after sentence, each seeing the new translations before it."""
        read: list[list[Readings]] = [[] for _ in documents]
        for document in documents:
            document.add_pass(list(document.passes[-1]))
        for t in range(max(len(document.sentences) for document in documents)):
            longer = [d for d, document in enumerate(documents) if len(document.sentences) > t]
            readings = [documents[d].read(t) for d in longer]
            sentences = [documents[d].sentences[t] for d in longer]
            found = self._search(self.system.predictor, sentences, readings)
            for d, hypotheses, reading in zip(longer, found, readings, strict=True):
                documents[d].update(t, hypotheses)
                read[d].append(reading)
        for document, parts in zip(documents, read, strict=True):
            document.readings = concatenate_readings(parts)

    def measure(self, documents: Sequence[DocumentTranslation]) -> None:
        """The pseudo-log-likelihood of each document's current translations."""
        scores = score_translations(
            self.system.model,
            [document.sentences for document in documents],
            [[list(tokens) for tokens in document.tokens] for document in documents],
            self.config.batch_tokens,
            [document.read() for document in documents],
        )
        for document, found in zip(documents, scores, strict=True):
            document.objective.append(fsum(found))

    def _search(
        self, predictor: Predictor, sentences: Sequence[Sentence], readings: Sequence[Readings] = ()
    ) -> list[list[Hypothesis]]:
        """Translate sentences in batches of like length; results in the given order."""
        device = self.system.device

        def run(part: Indices) -> list[list[Hypothesis]]:
            src, lengths = pad([sentences[i] for i in part])
            rows = torch.from_numpy(part).to(device)
            read = gather_readings(readings, rows) if readings else None
            src, lengths = src.to(device), lengths.to(device)
            return search(predictor, src, lengths, self.config, self.nbest, read)

        found: list[list[Hypothesis]] = [[] for _ in sentences]
        tokens = max(1, self.config.batch_tokens // max(self.config.beam, self.nbest))
        parts = length_batches([len(s) for s in sentences], tokens)
        every = in_threads(run, parts) if device.type == "cpu" else map(run, parts)
        for part, results in zip(parts, every, strict=True):
            for i, hypotheses in zip(part, results, strict=True):
                found[i] = hypotheses
            if self.progress is not None:
                self.progress(len(part), sum(len(best[0].tokens) + 1 for best in results))
        return found


def _add_pass(documents: Sequence[DocumentTranslation], found: list[list[Hypothesis]]) -> None:
    """Give each document the translations of its sentences as a new pass."""
    rest = iter(found)
    for document in documents:
        document.add_pass([next(rest) for _ in document.sentences])
