"""Vocabularies: text to token ids and back, by words or by subwords.

Both kinds share the ids of the specials: ``<pad>`` 0, ``<unk>`` 1, ``<s>`` 2, ``</s>`` 3; then come
the entries learned from the training data. What stands on disk is JSON (words) or a sentencepiece
model (subwords), never a pickle.
"""

import io
import json
import logging
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, pairwise
from pathlib import Path
from random import Random
from typing import Self, final

import sentencepiece
from sacremoses import MosesDetokenizer, MosesTokenizer

from wholedoc.config import VocabularyConfig
from wholedoc.corpus.documents import Document
from wholedoc.errors import UserError
from wholedoc.files import write_atomically

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

_SKIPPED = frozenset({PAD, BOS, EOS})
_logger = logging.getLogger(__name__)


class Vocabulary(ABC):
    """Words or subwords and their ids."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def tokens(self, text: str) -> list[str]:
        """Split ``text`` into surface tokens, one for each id of ``encode``."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The token ids of ``text``, without ``<s>`` and ``</s>``."""

    @abstractmethod
    def to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token of each id; specials keep their names, so that positions stay aligned."""

    @abstractmethod
    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """Join surface tokens to text."""

    def word_spans(self, tokens: Sequence[str]) -> list[tuple[int, int]]:
        """Where the words of surface tokens begin and end; here each token is a word."""
        return [(i, i + 1) for i in range(len(tokens))]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn token ids into text; specials are left out, save for ``<unk>``."""
        return self.decode_tokens(self.to_tokens([i for i in ids if i not in _SKIPPED]))

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the vocabulary to one file, for ``load_vocabulary``."""


@final
class WordVocabulary(Vocabulary):
    """Lower-cased Moses tokens of one language; words not listed are ``<unk>``."""

    def __init__(self, words: Sequence[str], language: str) -> None:
        self.words = tuple(words)
        self.language = language
        self._entries = (*SPECIALS, *self.words)
        self._ids = {word: i for i, word in enumerate(self.words, start=len(SPECIALS))}
        # Moses has rules for some languages and treats every other as English.
        self._tokenizer = MosesTokenizer(language or "en")
        self._detokenizer = MosesDetokenizer(language or "en")

    @classmethod
    def train(cls, counts: Mapping[str, int], config: VocabularyConfig, language: str) -> Self:
        """List the words of ``counts`` that are frequent enough, the most frequent first.

        ``config.size`` bounds the entries, specials included; 0 for no bound.
        """
        frequent = [word for word, count in counts.items() if count >= config.min_frequency]
        frequent.sort(key=lambda word: (-counts[word], word))
        if config.size:
            if config.size <= len(SPECIALS):
                what = f"a vocabulary of {config.size} has no room for words"
                fix = f"set it above {len(SPECIALS)}, or to 0 for no limit"
                raise UserError(what, where="vocabulary.size", fix=fix)
            del frequent[config.size - len(SPECIALS) :]
        return cls(frequent, language)

    def __len__(self) -> int:
        return len(self._entries)

    def tokens(self, text: str) -> list[str]:
        """Split ``text`` into lower-cased Moses tokens, known and unknown ones."""
        # Lower-casing comes last: the lists of abbreviations are cased.
        return [str(token).lower() for token in self._tokenizer.tokenize(text, escape=False)]

    def encode(self, text: str) -> list[int]:
        """The ids of the words of ``text``; those not listed become ``UNK``."""
        return [self._ids.get(token, UNK) for token in self.tokens(text)]

    def to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The word of each id."""
        return [self._entries[i] for i in ids]

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """Join words with the spacing of running text."""
        return str(self._detokenizer.detokenize(list(tokens), unescape=False))

    def save(self, path: Path) -> None:
        """Write language and words as JSON, one word per line."""
        content = {"kind": "word", "language": self.language, "words": self.words}
        write_atomically(path, json.dumps(content, ensure_ascii=False, indent=0))


# Sentencepiece writes a space as U+2581, so that character itself has to go in disguise for the
# round trip to be exact. The disguise starts with a noncharacter, which is escaped likewise.
_ESCAPE = "\ufdd0"
_SPACE_MARK = "\u2581"
_NO_CHARACTER = "\ufffd"  # what sentencepiece makes of bytes that spell none
_BYTE = re.compile("<0x[0-9A-F]{2}>")
# Training skips whole lines that hold one of these; each is learned from as if it were a space.
_RESERVED_IN_TRAINING = str.maketrans("\0\t\n\r\u2585", "     ")
# Training time grows with the square of the longest repetition, so long lines are cut, and equal
# lines learned from once.
_LONGEST_TRAINING_LINE = 1000
# Lines that training holds in memory, drawn at random when there are more.
_TRAINING_LINES = 1_000_000
# Entries that every vocabulary has: the specials, and the bytes that spell rare characters.
_FIXED_SUBWORDS = len(SPECIALS) + 256
# Candidates that training starts from. On Europarl this is quicker than sentencepiece's million,
# and the text comes out 3 % shorter.
_SEEDS_PER_ENTRY = 10


def _escape(text: str) -> str:
    return text.replace(_ESCAPE, _ESCAPE + "0").replace(_SPACE_MARK, _ESCAPE + "1")


def _unescape(text: str) -> str:
    return text.replace(_ESCAPE + "1", _SPACE_MARK).replace(_ESCAPE + "0", _ESCAPE)


@final
class SubwordVocabulary(Vocabulary):
    """Cased sentencepiece subwords with an exact round trip.

    ``decode(encode(text)) == text`` for every text: nothing is normalised, spaces are kept, and a
    character never seen in training is spelt by its bytes, so that ``<unk>`` does not occur.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(cls, lines: Iterable[str], size: int) -> Self:
        """Learn at most ``size`` subwords (unigram model) from a stream of lines.

        Equal lines count once. The same lines give the same vocabulary. A corpus too small for
        ``size`` gives a smaller vocabulary, and a warning in the log.
        """
        if size <= _FIXED_SUBWORDS:  # before the text is read
            what = f"a vocabulary of {size} has no room for subwords"
            fix = f"set it well above {_FIXED_SUBWORDS}, which specials and single bytes take"
            raise UserError(what, where="vocabulary.size", fix=fix)
        sample = _training_lines(lines)  # read here: some releases swallow errors of an iterator
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sample),
                model_writer=model,
                model_type="unigram",
                vocab_size=size,
                hard_vocab_limit=False,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                unk_surface=SPECIALS[UNK],
                seed_sentencepiece_size=_SEEDS_PER_ENTRY * size,
                # In bytes, of which a character takes at most four: no line is skipped.
                max_sentence_length=8 * _LONGEST_TRAINING_LINE,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _training_error(str(error), size) from error
        vocabulary = cls(model.getvalue())
        if len(vocabulary) < size:
            message = "the training text yields %d subwords, fewer than vocabulary.size = %d"
            _logger.warning(message, len(vocabulary), size)
        return vocabulary

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def tokens(self, text: str) -> list[str]:
        """Split ``text`` into sentencepiece's pieces; U+2581 in a piece marks a space."""
        return list(self._processor.encode(_escape(text), out_type=str))

    def encode(self, text: str) -> list[int]:
        """The ids of the subwords of ``text``."""
        return list(self._processor.encode(_escape(text)))

    def to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def word_spans(self, tokens: Sequence[str]) -> list[tuple[int, int]]:
        """Where the words of pieces begin and end: a space begins one."""
        starts = [i for i, piece in enumerate(tokens) if i == 0 or piece.startswith(_SPACE_MARK)]
        return list(pairwise([*starts, len(tokens)]))

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """Join pieces to text; a piece that is not in the vocabulary stands for itself.

        Bytes that spell no character, as a search may end with, are left out.
        """
        text = self._processor.decode(list(tokens))
        if _NO_CHARACTER in text:
            text = self._processor.decode(_without_broken_bytes(tokens))
        # Only in pieces unknown to sentencepiece has it left the mark of a space in place.
        return _unescape(text.removeprefix(_SPACE_MARK).replace(_SPACE_MARK, " "))

    def save(self, path: Path) -> None:
        """Write the sentencepiece model."""
        write_atomically(path, self._model)


def _without_broken_bytes(tokens: Sequence[str]) -> list[str]:
    """Pieces without the bytes that spell no character."""
    kept: list[str] = []
    for is_byte, run in groupby(tokens, lambda token: bool(_BYTE.fullmatch(token))):
        if is_byte:
            data = bytes(int(token[3:5], 16) for token in run)
            run = iter(f"<0x{byte:02X}>" for byte in data.decode("utf-8", "ignore").encode())
        kept.extend(run)
    return kept


def load_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary of either kind, told apart by its content."""
    if not path.is_file():
        raise UserError("no such vocabulary file", where=str(path), fix="check the run directory")
    content = path.read_bytes()
    try:
        if content.startswith(b"{"):
            saved = json.loads(content)
            return WordVocabulary(saved["words"], saved["language"])
        if not content:
            raise ValueError("the file is empty")
        return SubwordVocabulary(content)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        fix = "restore the file or train again"
        raise UserError("not a vocabulary", where=str(path), fix=fix) from error


def build_vocabularies(
    documents: Iterable[Document], config: VocabularyConfig, src_language: str, trg_language: str
) -> tuple[Vocabulary, Vocabulary]:
    """Learn the source and the target vocabulary from the training ``documents``.

    With ``config.shared`` both sides have the same entries under the same ids: one subword
    vocabulary returned twice, or one list of words with the tokenisation of either language.
    ``documents`` is read twice.
    """
    src = (pair.src for document in documents for pair in document)
    trg = (pair.trg for document in documents for pair in document)
    if config.kind == "word":
        src_counts, trg_counts = _count_words(src, src_language), _count_words(trg, trg_language)
        if config.shared:
            src_counts = trg_counts = src_counts + trg_counts
        src_words = WordVocabulary.train(src_counts, config, src_language)
        return src_words, WordVocabulary.train(trg_counts, config, trg_language)
    if config.shared:
        joint = SubwordVocabulary.train(chain(src, trg), config.size)
        return joint, joint
    return SubwordVocabulary.train(src, config.size), SubwordVocabulary.train(trg, config.size)


def _count_words(lines: Iterable[str], language: str) -> Counter[str]:
    tokenizer = WordVocabulary((), language)
    return Counter(token for line in lines for token in tokenizer.tokens(line))


def _training_lines(lines: Iterable[str]) -> list[str]:
    """Sample the lines to learn from; each different one is there once."""
    generator = Random(0)
    sample: list[str] = []
    texts = (_escape(line).translate(_RESERVED_IN_TRAINING) for line in lines)
    width = _LONGEST_TRAINING_LINE
    cut = (text[start : start + width] for text in texts for start in range(0, len(text), width))
    for number, line in enumerate(cut):
        if number < _TRAINING_LINES:
            sample.append(line)
        elif (place := generator.randrange(number + 1)) < _TRAINING_LINES:
            sample[place] = line
    return list(dict.fromkeys(sample))


def _training_error(message: str, size: int) -> UserError:
    if "sentences_.empty()" in message:
        return UserError("the training text is empty, so there is no vocabulary to learn")
    what = f"no vocabulary of {size} subwords can be learned from the training text"
    fix = "set another size, or vocabulary.kind=word"
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        what = f"{size} entries do not hold the bytes and characters of the training text"
        fix = f"set it to at least {smallest[1]}"
    return UserError(what, where="vocabulary.size", fix=fix)
