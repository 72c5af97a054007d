"""The configuration: frozen dataclasses, read from TOML, checked value by value.

A configuration file and a seed determine a run. Every value can be set from the command line with
``--set section.key=value``; an unknown key is refused with the nearest spelling, a value outside
its range with the range. ``python docs/configuration.py`` makes ``docs/configuration.md`` from the
docstrings under the fields.
"""

import dataclasses
import difflib
import json
import math
import sys
import tomllib
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wholedoc.errors import UserError

Checked = TypeVar("Checked")


@dataclass(frozen=True)
class Interval:
    """The values a number may take, ends included; it is never infinite."""

    low: float
    high: float = sys.float_info.max

    def __str__(self) -> str:
        if self.high in (sys.float_info.max, 1e300, MOST):
            return f"at least {self.low:g}"
        return f"between {self.low:g} and {self.high:.15g}"


MOST = 10**9
"""Of numbers that cost nothing, such as a threshold; those that cost memory or time have less."""
Count = Annotated[int, Interval(1, MOST)]
CountOrZero = Annotated[int, Interval(0, MOST)]
Positive = Annotated[float, Interval(1e-12, 1e300)]
NotNegative = Annotated[float, Interval(0, MOST)]
BeamWidth = Annotated[int, Interval(1, 100)]
Width = Annotated[int, Interval(1, 4096)]
VocabularySize = Annotated[int, Interval(0, 1_000_000)]
MOST_EMBEDDED = 2**28
"""Of ``vocabulary.size`` times ``model.embedding``: a gigabyte of weights."""
Epochs = Annotated[int, Interval(0, 100_000)]
Passes = Annotated[int, Interval(0, 100)]
Tokens = Annotated[int, Interval(1, 200_000)]
TokensOrZero = Annotated[int, Interval(0, 200_000)]
SentenceTokens = Annotated[int, Interval(1, 10_000)]
Known = Annotated[int, Interval(0, 256)]
MOST_TOML_BYTES = 30_000
"""Of a file: keys of many parts take the square of their number."""
MOST_SEED = 2**32 - 1
Share = Annotated[float, Interval(0, 0.95)]
MemoryName = Literal["none", "src", "trg", "both"]
FusionName = Literal["none", "context", "output"]
ContextName = Literal["none", "jean2017", "wang2017", "prevtrg", "more"]
Order = Literal["parallel", "sequential"]
FirstPass = Literal["base", "document"]
UnknownWords = Literal["none", "copy", "lexicon"]
ScoringMemory = Literal["given", "generated"]
ItemContext = Literal["own", "none", "shuffled"]


@dataclass(frozen=True)
class CorpusFiles:
    """Where one set of parallel documents lies."""

    src: str = ""
    """Source side; or the one file (or folder) that holds both sides."""
    trg: str = ""
    """Target side; empty where ``src`` holds both."""
    doc: str = ""
    """Document ids, one per line, or start-line indices; empty where the boundaries are inside."""


@dataclass(frozen=True)
class DataConfig:
    """The corpora of a run and what is left out of the training set."""

    train: CorpusFiles = field(default_factory=CorpusFiles)
    """The training documents."""
    dev: CorpusFiles = field(default_factory=CorpusFiles)
    """The documents by whose perplexity the best model is chosen; never filtered for length."""
    test: CorpusFiles = field(default_factory=CorpusFiles)
    """Documents kept for the end; training never opens them."""
    extra: CorpusFiles = field(default_factory=CorpusFiles)
    """More sentence pairs for stage 1 and the vocabularies alone; their documents do not matter."""
    src_language: str = ""
    """Language code of the source side, for Moses rules and files that hold several languages."""
    trg_language: str = ""
    """Language code of the target side."""
    min_sentences: Count = 1
    """Training documents with fewer sentences are left out."""
    max_words: CountOrZero = 0
    """Training pairs with a longer side (in words) are left out; 0 keeps all."""
    max_ratio: NotNegative = 0.0
    """Training pairs whose lengths differ by more than this factor are left out; 0 keeps all."""


@dataclass(frozen=True)
class VocabularyConfig:
    """How text becomes token ids."""

    kind: Literal["word", "subword"] = "subword"
    """``word``: Moses tokens, lower-cased, rare ones unknown. ``subword``: sentencepiece, cased."""
    size: VocabularySize = 8000
    """Number of entries; for ``word`` a limit, 0 for none."""
    min_frequency: Count = 5
    """``word`` only: rarer words are unknown."""
    shared: bool = False
    """One vocabulary for both sides."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of the network."""

    hidden: Width = 512
    """H: width of each recurrent layer and direction."""
    embedding: Width = 512
    """Width of the word embeddings."""
    alignment: Width = 256
    """A: width of the attention's hidden layer."""
    initial_state: Literal["zero", "encoder"] = "zero"
    """Where the decoder starts: at zero (the paper's code) or at a learned view of the source."""
    tie: Literal["none", "target", "all"] = "none"
    """Share the output matrix with the target embeddings, or with those of both sides."""
    memory: MemoryName = "none"
    """Which memories of the document a sentence reads."""
    fusion: FusionName = "none"
    """Where readings enter: the decoder's next state (Memory-to-Context) or its output layer."""
    context: ContextName = "none"
    """Instead of memories, what a baseline reads of the sentences just before; ``more`` reads
    nothing and is trained as long."""

    vectors: Literal["raw", "standard"] = "raw"
    """Sentence vectors of the source memory: as the language models give them (the paper), or each
    dimension with mean 0 and deviation 1 over the training set."""
    scaled: bool = False
    """Divide the scores of a reading by the square root of the cells' width."""

    def without_context(self) -> "ModelConfig":
        """The sentence model inside the document model."""
        return dataclasses.replace(self, memory="none", fusion="none", context="none")

    @property
    def reads_document(self) -> bool:
        """Whether there is a second stage, in which whole documents are read."""
        return self.memory != "none" or self.context != "none"

    @property
    def reads_source(self) -> bool:
        """Whether there is a source memory."""
        return self.memory in ("src", "both")

    @property
    def reads_target(self) -> bool:
        """Whether there is a target memory."""
        return self.memory in ("trg", "both")

    @property
    def reads_translations(self) -> bool:
        """Whether a sentence reads the current translations of others."""
        return self.reads_target or self.context == "prevtrg"


SENTENCE_MODEL = ("hidden", "embedding", "alignment", "initial_state", "tie")
"""Those that the sentence model depends on."""


@dataclass(frozen=True)
class StageConfig:
    """One stage of training."""

    optimiser: Literal["sgd", "adam"] = "sgd"
    """Plain gradient descent (the paper) or Adam."""
    learning_rate: Positive = 0.1
    """Step size, after warm-up and before decay."""
    schedule: Literal["epoch", "cosine"] = "epoch"
    """``epoch``: times ``decay`` after each epoch from ``decay_after`` on. ``cosine``: falls to
    zero over ``epochs``."""
    decay: Annotated[float, Interval(0.01, 1)] = 0.5
    """Factor of the ``epoch`` schedule."""
    decay_after: CountOrZero = 4
    """The first epoch at whose end the ``epoch`` schedule decays."""
    warmup: CountOrZero = 0
    """Updates over which the learning rate rises from zero."""
    epochs: Epochs = 10
    """Passes over the training set, at most; 0, in stage 1 with ``init``, keeps its weights."""
    patience: CountOrZero = 0
    """Stop after so many epochs without a better dev perplexity; 0 never stops early."""
    normalisation: Literal["sum", "token"] = "sum"
    """The loss of an update: summed over its words (the paper) or averaged."""
    clip: NotNegative = 5.0
    """Largest global norm of a gradient; 0 does not clip."""
    label_smoothing: Share = 0.0
    """Probability spread over all words in the training loss; perplexities never include it."""
    dropout: Share = 0.0
    """Rate at the inputs and the top output of every recurrent layer of encoder and decoder."""
    batch_tokens: Tokens = 1000
    """Positions of a batch on its longer side; padding counts, but not in stage 2."""
    precision: Literal["single", "mixed"] = "single"
    """``mixed``: on CPUs that are known to multiply 16-bit numbers (bfloat16) faster than 32-bit
    ones, updates round what they multiply, but for products of few rows and attention. Weights,
    sums and evaluation keep 32 bits."""
    checkpoint_minutes: NotNegative = 10.0
    """Time between checkpoints inside an epoch; each epoch's end writes one too."""


@dataclass(frozen=True)
class DocumentStageConfig(StageConfig):
    """Stage 2, in which documents are read whole."""

    document_dropout: Share = 0.0
    """Rate at the input and output of the document RNN."""
    dual_dropout: Share = 0.0
    """In place of ``dropout`` where both memories are read; 0 keeps ``dropout``."""
    start: Literal["random", "zero"] = "random"
    """Initial values of the matrices through which readings enter; with ``zero``, training begins
    at the sentence model."""
    target_memory: Literal["generated", "gold"] = "generated"
    """Target cells in training: from the stage-1 model's translations, or from the references."""
    update_tokens: TokensOrZero = 0
    """Documents share an update up to this many tokens; 0 makes one update per document."""

    def dropouts(self, model: ModelConfig) -> tuple[float, float]:
        """The rates of encoder and decoder and of the document RNN, for what a model reads."""
        dual = model.memory == "both" and self.dual_dropout
        return dual or self.dropout, self.document_dropout


@dataclass(frozen=True)
class SearchConfig:
    """Defaults of translation, kept with the model."""

    beam: BeamWidth = 5
    """Hypotheses followed at once; 1 is greedy search."""
    length_penalty: NotNegative = 1.0
    """A hypothesis is ranked by log P / words**length_penalty; 0 ranks by log P."""
    passes: Passes = 1
    """Updates of each translation by block coordinate descent; 0 leaves the sentence model's."""
    order: Order = "parallel"
    """``parallel``: a pass sees the translations before it; ``sequential``: also its own so far."""
    first_pass: FirstPass = "base"
    """Translations to begin with: the sentence model's, or the document model's, which then reads
    the source memory alone."""
    shuffle_memory: bool = False
    """A control: each document reads the memory of another one of those translated with it."""
    max_length_factor: Annotated[float, Interval(0.01, 100)] = 2.0
    """Longest translation, in tokens per source token ..."""
    max_length_extra: Annotated[int, Interval(0, 10_000)] = 10
    """... plus this many ..."""
    max_length: SentenceTokens = 1000
    """... and never more than this."""
    sentence_tokens: SentenceTokens = 400
    """Source sentences of more tokens than this are translated in pieces ..."""
    piece_tokens: SentenceTokens = 100
    """... of at most this many."""
    batch_tokens: Tokens = 8000
    """Source positions times beam that are searched at once."""
    replace_unknown: UnknownWords = "none"
    """``word`` vocabularies: put the attended source word, or its translation, for ``<unk>``."""


@dataclass(frozen=True)
class MemoryConfig:
    """Recall from what people have translated: translation memories and approved sentences."""

    fit: bool = True
    """Learn to recall after the last stage, from the training set and the dev set."""
    keep: bool = False
    """Keep the training set in the run directory as a translation memory, which translating then
    recalls from."""
    pairs: Known = 8
    """Pairs of translation memories that a sentence may recall: those that cover it best."""
    approved: Known = 16
    """Approved sentences of its own document that a sentence may recall: its best matches."""
    exact: bool = True
    """A sentence that was approved before in its document, or that a translation memory has, gets
    its translation from there, as it is."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run."""

    seed: Annotated[int, Interval(0, MOST_SEED)] = 1
    """Source of all randomness."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; ``auto`` takes CUDA if there is any."""
    share: bool = True
    """Reuse finished stages of the runs in the same folder, where they are the same."""
    samples: Annotated[int, Interval(0, 10_000)] = 32
    """Dev sentences translated after each epoch of stages 1 and 2, for BLEU and a look; 0: none."""
    tensorboard: bool = False
    """Write the figures of the log for TensorBoard too."""
    init: str = ""
    """A trained model to begin with: a run, an export, or one that comes with wholedoc. Its
    vocabularies are used, and stage 1 begins at the weights of its sentence model."""
    data: DataConfig = field(default_factory=DataConfig)
    """Corpora and filters."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    """Words or subwords."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    stage0: StageConfig = field(default_factory=StageConfig)
    """Training of the two sentence language models behind the source memory."""
    stage1: StageConfig = field(default_factory=StageConfig)
    """Training of the sentence model."""
    stage2: DocumentStageConfig = field(default_factory=DocumentStageConfig)
    """Training of the document model."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Translation."""
    tm: MemoryConfig = field(default_factory=MemoryConfig)
    """Translation memories."""

    def stage(self, name: str) -> StageConfig:
        """The settings of a stage; those of stage 0 serve both directions."""
        stages = {"stage0": self.stage0, "stage1": self.stage1, "stage2": self.stage2}
        return stages[name.partition("-")[0]]

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries, ready for JSON."""
        return dataclasses.asdict(self)


# Loading: TOML files, ``--set section.key=value``, and the check of each value.

_TYPE_NAMES: dict[types.GenericAlias | type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a section",
}


@dataclass
class _Origins:
    """Where values come from, so that an error names the place to mend."""

    file: str
    settings: dict[str, str] = field(default_factory=dict)
    """The ``--set`` options by their keys."""

    def of(self, *keys: str) -> str:
        """The last ``--set`` of one of these keys, of a section of it or inside it; or the file."""
        for key, setting in reversed(self.settings.items()):
            if any(f"{key}.".startswith(f"{k}.") or f"{k}.".startswith(f"{key}.") for k in keys):
                return f"--set {setting}"
        return self.file


def load_config(path: str | Path, settings: Sequence[str] = ()) -> Config:
    """Read a TOML configuration (a file or the name of a shipped one) and apply ``key=value``s.

    A file that begins with ``base = "small"`` only says what differs from that shipped one.
    """
    file = find_config(path)
    values, origins = read_toml(file), _Origins(str(file))
    base, shipped = values.pop("base", None), shipped_configs()
    if base is not None:
        if not isinstance(base, str) or base not in shipped:
            what = f"base = {json.dumps(base, default=str)} is not a shipped configuration"
            raise UserError(what, where=str(file), fix=f"choices: {', '.join(shipped)}")
        values = _merge(read_toml(shipped[base]), values, str(file))
    for setting in settings:
        values = _merge(values, _parse(setting, origins), f"--set {setting}")
    config: Config = _build(Config, values, "", origins)
    _check_together(config, origins)
    return config


def _merge(below: Mapping[str, Any], above: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Nested dictionaries, the second one (from ``where``) over the first, section by section."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(above[key], dict):
            if not isinstance(below[key], dict):
                what = f"{key} = {json.dumps(below[key], default=str)} is a value, not a section"
                raise UserError(what, where=where, fix=f"set {key} itself")
            merged[key] = _merge(below[key], above[key], where)
    return merged


def _parse(setting: str, origins: _Origins) -> dict[str, Any]:
    """One ``section.key=value`` of the command line as nested dictionaries.

    The value is text where it is not a value of TOML.
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not key:
        fix = "write e.g. --set model.hidden=256"
        raise UserError(f"'{setting}' is not key=value", where="--set", fix=fix)
    origins.settings.pop(key, None)  # the last one counts, and comes last
    origins.settings[key] = setting
    value: Any = text
    with suppress(ValueError, RecursionError):
        value = tomllib.loads(f"value = {text}")["value"]
    *sections, last = key.split(".")
    values = {last: value}
    for section in reversed(sections):
        values = {section: values}
    return values


def load_model_config(model: str | Path) -> Config:
    """The configuration of a trained model; for its name see :func:`find_model`."""
    return load_config(find_model(model) / "config.toml")


def find_model(name: str | Path) -> Path:
    """The directory of a model: a run, an export, or one that comes with wholedoc, by its name."""
    directory, shipped = Path(name), shipped_models()
    if (directory / "config.toml").exists():
        return directory
    if str(name) in shipped:
        return shipped[str(name)]
    if directory.is_dir():
        what = "is not a run directory: config.toml is missing"
        fix = "give the directory that `wholedoc train` wrote"
    elif directory.is_file():
        what, fix = "is a file, not a model", "name a model before it: the directory of a run"
    else:
        what, fix = "no such model", "give the directory of a run"
    fix += f", or {' or '.join(shipped)}, which come with wholedoc"
    raise UserError(what, where=str(name), fix=fix)


def shipped_models() -> dict[str, Path]:
    """The models that come with wholedoc, by name."""
    files = sorted((Path(__file__).parent / "models").glob("*/config.toml"))
    return {file.parent.name: file.parent for file in files}


def read_toml(file: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    if file.stat().st_size > MOST_TOML_BYTES:
        what = f"a configuration of more than {MOST_TOML_BYTES:,} bytes"
        raise UserError(what, where=str(file), fix="say only what differs from its base")
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        fix = "a configuration is UTF-8 TOML"
        raise UserError("not a text file", where=str(file), fix=fix) from error
    except (ValueError, RecursionError) as error:  # also numbers without end, and deep nesting
        raise UserError(f"not valid TOML: {error}", where=str(file), fix="correct it") from error


def shipped_configs(*, experiments: bool = False) -> dict[str, Path]:
    """The configurations that come with wholedoc, by name; or the experiments."""
    package = Path(__file__).parent
    folders = (package / "configs", package.parent / "configs")  # installed; a checkout
    files = next((sorted(folder.glob("*.toml")) for folder in folders if folder.is_dir()), [])
    return {f.stem: f for f in files if f.stem.startswith("experiment-") == experiments}


def find_config(path: str | Path, *, experiments: bool = False) -> Path:
    """The file meant by a path or by the name of a shipped configuration, or experiment."""
    shipped = shipped_configs(experiments=experiments)
    if Path(path).is_file():
        return Path(path)
    if str(path) in shipped:
        return shipped[str(path)]
    if Path(path).is_dir():
        raise UserError("is a directory", where=str(path), fix="name a TOML file")
    fix = f"give a TOML file or one of: {', '.join(shipped)}"
    raise UserError("no such configuration", where=str(path), fix=fix)


def _check_together(config: Config, origins: _Origins) -> None:
    """Refuse values that are good by themselves but do not go together."""
    names = ("tie", "memory", "fusion", "context")
    tie, memory, fusion, context = (getattr(config.model, name) for name in names)
    hidden, embedding = config.model.hidden, config.model.embedding
    if tie == "all" and not config.vocabulary.shared:
        what = "model.tie = 'all' needs one vocabulary for both sides"
        fix = "set vocabulary.shared=true or model.tie='target'"
        raise UserError(what, where=origins.of("model.tie", "vocabulary.shared"), fix=fix)
    if (memory == "none") != (fusion == "none"):
        what = f"model.memory = '{memory}' does not go with model.fusion = '{fusion}'"
        fix = "set both, or neither: a memory needs a fusion through which it is read"
        raise UserError(what, where=origins.of("model.memory", "model.fusion"), fix=fix)
    if context != "none" and memory != "none":
        what = f"model.context = '{context}' does not go with model.memory = '{memory}'"
        fix = "set model.memory='none' and model.fusion='none', or model.context='none'"
        raise UserError(what, where=origins.of("model.context", "model.memory"), fix=fix)
    for stage in ("stage0", "stage1", "stage2"):
        if not config.stage(stage).epochs and not (stage == "stage1" and config.init):
            what = f"{stage}.epochs = 0 would leave random weights as they are"
            fix = f"set {stage}.epochs to at least 1" + " or set init" * (stage == "stage1")
            raise UserError(what, where=origins.of(f"{stage}.epochs", "init"), fix=fix)
    if tie != "none" and embedding != hidden:
        widths = f"model.embedding is {embedding} and model.hidden {hidden}"
        what = f"model.tie = '{tie}' needs equal widths, but {widths}"
        where = origins.of("model.tie", "model.embedding", "model.hidden")
        raise UserError(what, where=where, fix="make them equal or set model.tie='none'")
    if config.vocabulary.size * embedding > MOST_EMBEDDED:
        what = f"vocabulary.size × model.embedding is more than {MOST_EMBEDDED:,}"
        where = origins.of("vocabulary.size", "model.embedding")
        raise UserError(what, where=where, fix="make one of them smaller")


def build(cls: type[Checked], values: Mapping[str, Any], where: str) -> Checked:
    """An instance of a dataclass from a dictionary; ``where`` names its file in errors."""
    checked: Checked = _build(cls, values, "", _Origins(where))
    return checked


def _build(cls: Any, values: Any, prefix: str, origins: _Origins) -> Any:
    """An instance of dataclass ``cls`` from a dictionary, every key and value checked."""
    if not isinstance(values, Mapping):
        name = prefix.rstrip(".")
        what = f"{name} must be a section, not {json.dumps(values, default=str)}"
        raise UserError(what, where=origins.of(name), fix=f"set the keys of [{name}] one by one")
    hints = get_type_hints(cls, include_extras=True)
    unknown = [key for key in values if key not in hints]
    if unknown:
        near = difflib.get_close_matches(unknown[0], hints, n=1, cutoff=0.5)
        fix = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(hints)}"
        key = f"{prefix}{unknown[0]}"
        raise UserError(f"unknown key {key}", where=origins.of(key), fix=fix)
    checked = {}
    for key, value in values.items():
        hint = hints[key]
        if isinstance(hint, types.UnionType):  # TOML has no None: an optional section is there
            hint = get_args(hint)[0]
        if dataclasses.is_dataclass(hint):
            checked[key] = _build(hint, value, f"{prefix}{key}.", origins)
        else:
            checked[key] = _check(hint, value, f"{prefix}{key}", origins)
    return cls(**checked)


def _wrong(key: str, value: Any, origins: _Origins, what: str, fix: str) -> UserError:
    shown = str(value) if isinstance(value, float) else json.dumps(value, default=str)
    return UserError(f"{key} = {shown} {what}", where=origins.of(key), fix=fix)


def _check(hint: Any, value: Any, key: str, origins: _Origins) -> Any:
    """The value as the field's type, or an error that names the key and what it takes."""
    wrong = partial(_wrong, key, value, origins)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise wrong("is not a list", f"write {key} = [...]")
        item = get_args(hint)[0]
        return tuple(_check(item, one, f"{key}[{i}]", origins) for i, one in enumerate(value))
    interval = None
    if get_origin(hint) is Annotated:
        hint, interval = get_args(hint)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value in choices and isinstance(value, str):
            return value
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        guess = f"did you mean '{near[0]}'? " if near else ""
        raise wrong("is not a choice", f"{guess}choices: {', '.join(choices)}")
    hint = get_origin(hint) or hint
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) <= sys.float_info.max else math.inf
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise wrong(f"is not {_TYPE_NAMES[hint]}", f"give {_TYPE_NAMES[hint]}")
    if isinstance(value, str) and value.encode(errors="replace").decode() != value:
        raise wrong("holds a byte that is not UTF-8", "rename the file")
    if interval is not None and not interval.low <= value <= interval.high:
        raise wrong("is out of range", f"it must be {interval}")
    return value
