"""The corpora of a run: read, filtered, and kept as token ids in its directory."""

import json
import shutil
from collections.abc import Iterator
from itertools import chain

from wholedoc.config import SENTENCE_MODEL, Config, CorpusFiles, find_model, load_model_config
from wholedoc.corpus.documents import Document, FilterCounts, Filters, filter_documents
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.readers import Corpus, fingerprint, read_corpus
from wholedoc.corpus.vocabulary import build_vocabularies
from wholedoc.errors import UserError
from wholedoc.files import name_file
from wholedoc.progress import say
from wholedoc.store.run import Run
from wholedoc.training.reuse import Reuse


def check_data(config: Config, run: Run) -> None:
    """Find out before anything is written that a new run lacks a file."""
    if not run.config_file.exists():
        _check_init(config)
        for sets in _corpora(config).values():
            _Joined(config, sets)


def _check_init(config: Config) -> None:
    """Refuse a model to begin with that does not have the shape of the one to be trained."""
    if not config.init:
        return
    theirs = load_model_config(config.init)
    keys = [("model", key) for key in SENTENCE_MODEL]
    for section, key in (("vocabulary", "kind"), ("vocabulary", "shared"), *keys):
        has, wanted = (getattr(getattr(each, section), key) for each in (theirs, config))
        if has != wanted:
            value = json.dumps(has)
            what = f"has {section}.{key} = {value}, and this configuration {json.dumps(wanted)}"
            fix = f"add --set {section}.{key}={value}"
            raise UserError(what, where=f"init = {json.dumps(config.init)}", fix=fix)


def prepare_data(config: Config, run: Run) -> None:
    """Build the vocabularies and encode the corpora, unless an earlier start has done so."""
    digests = check_data_unchanged(config, run)
    if not run.has_begun() and any(EncodedCorpus.open(run.data(name)) is None for name in digests):
        run.forget_data()  # a start that was interrupted may have left the words of other files
    vocabulary_files = run.vocabulary_files()
    if config.init and not all(file.exists() for file in vocabulary_files):
        _check_init(config)
        theirs = Run(find_model(config.init)).vocabulary_files()
        for old, new in zip(theirs, vocabulary_files, strict=True):
            shutil.copyfile(old, new)
    Reuse(config, run).data(digests)
    if not all(file.exists() for file in vocabulary_files):
        say("building vocabularies")
        vocabularies = build_vocabularies(
            _Joined(config, _corpora(config)[sentence_set(config)]),
            config.vocabulary,
            config.data.src_language,
            config.data.trg_language,
        )
        for vocabulary, file in zip(vocabularies, vocabulary_files, strict=True):
            vocabulary.save(file)
    vocabularies = run.load_vocabularies()
    for name, sets in _corpora(config).items():
        if EncodedCorpus.open(run.data(name)) is None:
            corpus = _Joined(config, sets)
            with name_file(run.data(name)):
                encoded = encode_corpus(corpus, *vocabularies, run.data(name), digests[name] or "")
            found = "; ".join(map(str, corpus.parts))
            say(f"{name}: {encoded.documents:,} documents, {len(encoded):,} sentences; {found}")
            for part in corpus.parts:
                part.warn()


def sentence_set(config: Config) -> str:
    """Which of the encoded corpora stage 1 is trained on."""
    return "stage1" if config.data.extra.src else "train"


def _corpora(config: Config) -> dict[str, list[str]]:
    """The encoded corpora of a run, each with the sets of the configuration that it joins."""
    corpora = {"train": ["train"], "dev": ["dev"]}
    return corpora | ({"stage1": ["train", "extra"]} if config.data.extra.src else {})


def _digests(config: Config) -> dict[str, str | None]:
    """What the files of each encoded corpus hold, as digests; None where one is missing."""
    digests = {
        corpus: [fingerprint(getattr(config.data, name)) for name in sets]
        for corpus, sets in _corpora(config).items()
    }
    return {
        corpus: None if None in found else "+".join(map(str, found))
        for corpus, found in digests.items()
    }


class _Joined:
    """Some sets of a configuration, one after the other; can be read any number of times."""

    def __init__(self, config: Config, sets: list[str]) -> None:
        self.parts = [open_corpus(config, name) for name in sets]

    def __iter__(self) -> Iterator[Document]:
        return chain.from_iterable(self.parts)


def check_data_unchanged(config: Config, run: Run) -> dict[str, str | None]:
    """Refuse to resume, or begin anew if nothing is trained, where the files are not the same.

    Returns digests of what the corpora are made from; None where a file is missing.
    """
    digests = _digests(config)
    for name, now in digests.items():
        same = EncodedCorpus.open(run.data(name), now) is not None
        if now is None or same or EncodedCorpus.open(run.data(name)) is None:
            continue
        if run.has_begun():
            raise UserError(
                f"the {name} set is not the one that this run was begun with",
                where=getattr(config.data, _corpora(config)[name][-1]).src,
                fix="restore the files, or choose another directory with --run",
            )
        run.forget_data()
    return digests


class FilteredCorpus:
    """A corpus without what the filters leave out; can be read any number of times."""

    def __init__(self, corpus: Corpus, filters: Filters) -> None:
        self.corpus, self.filters, self.counts = corpus, filters, FilterCounts()
        self.read = self.kept = 0
        """Sentence pairs before and after the filters."""

    def __iter__(self) -> Iterator[Document]:
        self.counts = FilterCounts()
        self.read = self.kept = 0
        for document in self.corpus:
            self.read += len(document.pairs)
            for filtered in filter_documents([document], self.filters, self.counts):
                self.kept += len(filtered.pairs)
                yield filtered
        if not self.kept:
            fix = "loosen data.min_sentences, data.max_words or data.max_ratio, or check the files"
            where = str(self.corpus.inputs.src)
            raise UserError(f"no sentence is left: {self.counts}", where=where, fix=fix)

    def __str__(self) -> str:
        return f"boundaries: {self.corpus.boundaries}; left out: {self.counts}"

    def warn(self) -> None:
        """Say so where the filters have left out more than half of what was read last."""
        if 2 * self.kept < self.read:
            lost = self.read - self.kept
            say(
                f"warning: {self.corpus.inputs.src}: the filters left out {lost:,} of "
                f"{self.read:,} sentence pairs ({self.counts}); check data.min_sentences, "
                "data.max_words and data.max_ratio"
            )


def open_corpus(config: Config, name: str) -> FilteredCorpus:
    """One set of the configuration; only what is trained on is filtered."""
    files: CorpusFiles = getattr(config.data, name)
    if not files.src:
        fix = f"add --set data.{name}.src=FILE --set data.{name}.trg=FILE"
        raise UserError(f"data.{name}.src is not set", where="configuration", fix=fix)
    data = config.data
    filters = {
        "train": Filters(data.min_sentences, data.max_words, data.max_ratio),
        "extra": Filters(max_words=data.max_words, max_ratio=data.max_ratio),
    }.get(name, Filters())
    return FilteredCorpus(read_corpus(files, data.src_language, data.trg_language), filters)
