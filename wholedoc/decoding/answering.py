"""From what search has found to text: translations, their terms, and where words came from."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.glossary import Found
from wholedoc.corpus.vocabulary import UNK
from wholedoc.decoding.alignment import align, token_spans
from wholedoc.decoding.constraints import Enforcer, Requirement
from wholedoc.decoding.descent import descend
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.preparing import Piece, Prepared, encode
from wholedoc.decoding.recollection import (
    RecalledToken,
    RecalledWord,
    copied_words,
    join_words,
    recollect,
)
from wholedoc.decoding.results import Task, Term, TermState, TranslatedDocument, Translation
from wholedoc.decoding.search import Hypothesis
from wholedoc.formats.protected import find_protected, missing_protected
from wholedoc.store.model import TrainedModel


class Answerer:
    """Translates what was prepared, and says it in words."""

    def __init__(self, trained: TrainedModel, system: TranslationSystem) -> None:
        self.system = system
        self.src_vocabulary, self.trg_vocabulary = trained.src_vocabulary, trained.trg_vocabulary
        self.lexicon = trained.lexicon
        self.enforcer = Enforcer(self.trg_vocabulary, trained.config.data.trg_language)
        """Finds what is required of translations, and searches again for those without."""

    def translate(
        self,
        prepared: list[Prepared],
        progress: Progress | None = None,
        measure: bool = True,
        explain: bool = False,
    ) -> list[TranslatedDocument]:
        """Translate documents that were prepared, with the same settings of search."""
        if not prepared:
            return []
        *_, found = self._descend(prepared, progress, measure)
        return self._answers(found, prepared, explain=explain)

    def follow(self, prepared: Prepared) -> Iterator[TranslatedDocument]:
        """A document after each pass of the descent; the last one explained, after all."""
        found: list[DocumentTranslation] = []
        for found in self._descend([prepared]):
            yield from self._answers(found, [prepared], explain=False)
        yield from self._answers(found, [prepared], explain=True)

    def _descend(
        self, prepared: list[Prepared], progress: Progress | None = None, measure: bool = True
    ) -> Iterator[list[DocumentTranslation]]:
        task = prepared[0].task
        return descend(
            self.system,
            [each.tokens for each in prepared],
            task.config,
            task.nbest,
            progress,
            measure,
            [each.known_of_pieces for each in prepared],
            [self._encode_approved(each.fixed, task.config) for each in prepared],
            [self._wanted(each) for each in prepared],
            self.enforcer if task.glossary or task.protect else None,
        )

    def _answers(
        self, found: list[DocumentTranslation], prepared: list[Prepared], *, explain: bool
    ) -> list[TranslatedDocument]:
        counts = [each.counts for each in prepared]
        cells = [counts[found.index(document.foreign or document)] for document in found]
        return [
            self._translated(*each, explain=explain)
            for each in zip(found, prepared, cells, strict=True)
        ]

    def _translated(
        self,
        document: DocumentTranslation,
        prepared: Prepared,
        cells: list[int],
        *,
        explain: bool,
    ) -> TranslatedDocument:
        """The texts of a document's translations; ``cells`` are pieces of what it has read."""
        task, counts = prepared.task, prepared.counts
        passes = []
        for found in document.passes:
            rest = iter(found)
            passes.append([self._joined(pieces, rest, task.config) for pieces in prepared.pieces])
        for t, place in enumerate(prepared.places):
            if place in prepared.given:  # to the letter
                for translations in passes:
                    translations[t] = [replace(translations[t][0], text=prepared.given[place])]
            elif task.protect:
                for translations in passes:
                    translations[t] = self._complete(task.sentences[place], translations[t])
        return TranslatedDocument(
            passes[-1],
            [[candidates[0].text for candidates in translations] for translations in passes],
            join_weights(document.readings.src_weights, counts, cells),
            join_weights(document.readings.trg_weights, counts, cells),
            document.objective,
            counts,
            prepared.known,
            self._recollect(document, prepared) if explain else None,
            task,
            self._terms(document, prepared) if task.glossary else [[] for _ in counts],
        )

    def _wanted(self, prepared: Prepared) -> list[list[Requirement]]:
        """What is required of the translation of each piece; empty where nothing can be."""
        task = prepared.task
        if task.glossary is None and not task.protect:
            return []
        return [self._required(task, *each) for each in prepared.pieces_with_terms]

    def _required(self, task: Task, piece: Piece, terms: Sequence[Found]) -> list[Requirement]:
        """What is required of the translation of a piece: its terms, then what is not text."""
        text = piece.read
        kept = find_protected(text) if task.protect else []
        if not terms and not kept:
            return []
        spans = token_spans(text, self.src_vocabulary.tokens(clean_text(text)))

        def tokens_of(start: int, end: int) -> tuple[int, ...]:
            within = (n for n, (a, b) in enumerate(spans) if a < end and b > start)
            return tuple(n for n in within if n < len(piece.tokens) - 1)

        forms = task.glossary.forms if task.glossary else {}
        return [
            Requirement(
                entry.target,
                forms[entry.target],
                source=() if piece.stand_ins else tokens_of(start, end),
            )
            for start, end, entry in terms
        ] + [
            Requirement(text[start:end], literal=True, source=tokens_of(start, end))
            for start, end in kept
        ]

    def _terms(self, document: DocumentTranslation, prepared: Prepared) -> list[list[Term]]:
        """The terms of each sentence, and whether its translation has them."""
        hypotheses, wanted = iter(document.passes[-1]), iter(self._wanted(prepared))
        every = []
        for t, place in enumerate(prepared.places):
            terms: list[Term] = []
            offset = 0
            for piece, found in zip(prepared.pieces[t], prepared.found[t], strict=True):
                best, required = next(hypotheses)[0], next(wanted)
                if not found:
                    offset += len(piece.text) + len(piece.separator)
                    continue
                text = self._translation(piece, best, prepared.task.config).text
                spans = self.enforcer.locate(required, prepared.given.get(place, text))
                for n, (each, span) in enumerate(zip(found, spans, strict=False)):
                    state: TermState = "enforced" if n in best.enforced else "kept"
                    start, end = each.start + offset, each.end + offset
                    if span is None:
                        state = "missing"
                    terms.append(Term(each.entry.source, each.entry.target, start, end, state))
                offset += len(piece.text) + len(piece.separator)
            every.append(terms)
        return every

    def _recollect(
        self, document: DocumentTranslation, prepared: Prepared
    ) -> list[list[RecalledWord]]:
        """What the words of the final translations were recalled from, sentence by sentence."""
        words: list[list[RecalledWord]] = [[] for _ in prepared.pieces]
        system, first = self.system, prepared.task.config.first_pass
        by_document = system.reads_documents and (len(document.passes) > 1 or first == "document")
        recaller = system.recaller if by_document else system.base_recaller
        if recaller is None:
            return words
        ids = [list(found) for found in document.tokens]
        tokens = [[RecalledToken(0.0, 0.0, ())] * len(found) for found in ids]
        if any(prepared.known):
            tokens = recollect(
                recaller,
                document.sentences,
                ids,
                prepared.known_of_pieces,
                [document.readings] if by_document else [],
                prepared.task.config.batch_tokens,
            )
        owners = [t for t, count in enumerate(prepared.counts) for _ in range(count)]
        pieces = [piece for of_sentence in prepared.pieces for piece in of_sentence]
        for i, (t, found) in enumerate(zip(owners, tokens, strict=True)):
            if prepared.places[t] not in prepared.given:
                names = self.trg_vocabulary.to_tokens(document.tokens[i])
                joined = join_words(found, names, prepared.known[t], self.trg_vocabulary)
                words[t] += [replace(word, text=pieces[i].restore(word.text)) for word in joined]
            elif prepared.places[t] not in prepared.task.approved:
                words[t] = copied_words(prepared.known[t])
        return words

    def _joined(
        self, pieces: list[Piece], hypotheses: Iterator[list[Hypothesis]], config: SearchConfig
    ) -> list[Translation]:
        """The translations of a sentence from those of its pieces: the best of each, then the next.

        The log-probability is the sum, normalised for length as that of one sentence.
        """
        parts = [
            [self._translation(piece, found, config) for found in next(hypotheses)]
            for piece in pieces
        ]
        if len(parts) == 1:
            return parts[0]
        joined = []
        for rank in range(max(map(len, parts))):
            chosen = [part[min(rank, len(part) - 1)] for part in parts]
            pairs = zip(chosen, pieces, strict=True)
            text = "".join(found.text + piece.separator for found, piece in pairs if found.text)
            log_probability = math.fsum(found.log_probability for found in chosen)
            words = sum(len(found.attention) for found in chosen if found.attention is not None)
            score = log_probability / words**config.length_penalty
            joined.append(Translation(text.strip(), log_probability, score, None))
        return joined

    def _complete(self, text: str, translations: list[Translation]) -> list[Translation]:
        """Translations with all protected parts of a text.

        What search could not put into the best one comes after the word that stands before it in
        the source; others without are left out.
        """
        best, *others = translations
        for start, end in missing_protected(text, best.text):
            best = self._insert(text, best, start, end)
        return [best, *(each for each in others if not missing_protected(text, each.text))]

    def _insert(self, text: str, found: Translation, start: int, end: int) -> Translation:
        """A translation with a protected part: after the word before it, or else at the end."""
        before = ((o.source, o.end) for o in align(text, found, self.src_vocabulary))
        place = max((pair for pair in before if pair[0] < start), default=(0, 0))[1]
        inside = (last for first, last in find_protected(found.text) if first < place < last)
        place = next(inside, place)
        lacking = len(missing_protected(text, found.text))
        for cut in (place, len(found.text)):
            words = found.text[:cut], text[start:end], found.text[cut:]
            longer = replace(found, text=" ".join(filter(None, map(str.strip, words))))
            if len(missing_protected(text, longer.text)) < lacking:
                break
        return longer

    def _encode_approved(
        self, fixed: Mapping[int, str], config: SearchConfig
    ) -> dict[int, Sentence]:
        most = config.sentence_tokens
        return {
            i: encode(text[: 10 * most], self.trg_vocabulary)[:most] for i, text in fixed.items()
        }

    def _translation(self, piece: Piece, found: Hypothesis, config: SearchConfig) -> Translation:
        tokens = self.trg_vocabulary.to_tokens(found.tokens)
        reads_words = found.attention.shape[-1] > 1  # an approved one may be of an empty sentence
        if config.replace_unknown != "none" and UNK in found.tokens and reads_words:
            # The source word that each <unk> attends to most, </s> left out, or its translation.
            lexicon = self.lexicon if config.replace_unknown == "lexicon" else {}
            words = self.src_vocabulary.tokens(piece.read)
            attended = found.attention[:-1, :-1].argmax(dim=-1).tolist()
            tokens = [
                lexicon.get(words[i], words[i]) if token == UNK else name
                for name, token, i in zip(tokens, found.tokens, attended, strict=True)
            ]
        # A byte-wise vocabulary can spell a line break, which would shift all lines after it.
        line = " ".join(self.trg_vocabulary.decode_tokens(tokens).splitlines())
        line = piece.restore(line)
        return Translation(line, found.log_probability, found.score, found.attention, tokens)


def join_weights(
    weights: Float[Tensor, "piece cell"] | None, readers: Sequence[int], read: Sequence[int]
) -> Float[Tensor, "sent read"] | None:
    """Weights between sentences from those between pieces, of which each sentence has a number.

    A sentence reads as its pieces do on average, and a sentence is read as much as all its pieces.
    """
    if weights is None or max(*readers, *read, 1) == 1:
        return weights
    rows, columns = (
        torch.repeat_interleave(torch.tensor(pieces, device=weights.device))
        for pieces in (readers, read)
    )
    summed = weights.new_zeros(len(readers), weights.shape[1]).index_add_(0, rows, weights)
    joined = weights.new_zeros(len(readers), len(read)).index_add_(1, columns, summed)
    return joined / weights.new_tensor(readers)[:, None]
