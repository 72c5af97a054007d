"""The schema of a configuration: frozen dataclasses, a docstring under every field.

``python docs/configuration.py`` makes ``docs/configuration.md`` from these docstrings.
"""

import dataclasses
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal


@dataclass(frozen=True)
class Interval:
    """The values a number may take, ends included; it is never infinite."""

    low: float
    high: float = sys.float_info.max

    def __str__(self) -> str:
        if self.high == sys.float_info.max:
            return f"at least {self.low:g}"
        return f"between {self.low:g} and {self.high:.15g}"


Count = Annotated[int, Interval(1)]
BeamWidth = Annotated[int, Interval(1, 100)]
CountOrZero = Annotated[int, Interval(0)]
Positive = Annotated[float, Interval(1e-12)]
NotNegative = Annotated[float, Interval(0)]
Share = Annotated[float, Interval(0, 0.95)]
MemoryName = Literal["none", "src", "trg", "both"]
FusionName = Literal["none", "context", "output"]
ContextName = Literal["none", "jean2017", "wang2017", "prevtrg", "more"]
Order = Literal["parallel", "sequential"]
FirstPass = Literal["base", "document"]
UnknownWords = Literal["none", "copy", "lexicon"]
ScoringMemory = Literal["given", "generated"]


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
    size: CountOrZero = 8000
    """Number of entries; for ``word`` a limit, 0 for none."""
    min_frequency: Count = 5
    """``word`` only: rarer words are unknown."""
    shared: bool = False
    """One vocabulary for both sides."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of the network."""

    hidden: Count = 512
    """H: width of each recurrent layer and direction."""
    embedding: Count = 512
    """Width of the word embeddings."""
    alignment: Count = 256
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
    epochs: Count = 10
    """Passes over the training set, at most."""
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
    batch_tokens: Count = 1000
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
    start: Literal["random", "zero"] = "random"
    """Initial values of the matrices through which readings enter; with ``zero``, training begins
    at the sentence model."""
    target_memory: Literal["generated", "gold"] = "generated"
    """Target cells in training: from the stage-1 model's translations, or from the references."""
    update_tokens: CountOrZero = 0
    """Documents share an update up to this many tokens; 0 makes one update per document."""


@dataclass(frozen=True)
class SearchConfig:
    """Defaults of translation, kept with the model."""

    beam: BeamWidth = 5
    """Hypotheses followed at once; 1 is greedy search."""
    length_penalty: NotNegative = 1.0
    """A hypothesis is ranked by log P / words**length_penalty; 0 ranks by log P."""
    passes: CountOrZero = 1
    """Updates of each translation by block coordinate descent; 0 leaves the sentence model's."""
    order: Order = "parallel"
    """``parallel``: a pass sees the translations before it; ``sequential``: also its own so far."""
    first_pass: FirstPass = "base"
    """Translations to begin with: the sentence model's, or the document model's, which then reads
    the source memory alone."""
    shuffle_memory: bool = False
    """A control: each document reads the memory of another one of those translated with it."""
    max_length_factor: Positive = 2.0
    """Longest translation, in tokens per source token ..."""
    max_length_extra: CountOrZero = 10
    """... plus this many ..."""
    max_length: Count = 1000
    """... and never more than this."""
    sentence_tokens: Count = 400
    """Source sentences of more tokens than this are translated in pieces ..."""
    piece_tokens: Count = 100
    """... of at most this many."""
    batch_tokens: Count = 8000
    """Source positions times beam that are searched at once."""
    replace_unknown: UnknownWords = "none"
    """``word`` vocabularies: put the attended source word, or its translation, for ``<unk>``."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run."""

    seed: Annotated[int, Interval(0, 2**32 - 1)] = 1
    """Source of all randomness."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; ``auto`` takes CUDA if there is any."""
    share: bool = True
    """Reuse finished stages of the runs in the same folder, where they are the same."""
    samples: CountOrZero = 32
    """Dev sentences translated after each epoch of stages 1 and 2, for BLEU and a look; 0: none."""
    tensorboard: bool = False
    """Write the figures of the log for TensorBoard too."""
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

    def stage(self, name: str) -> StageConfig:
        """The settings of a stage; those of stage 0 serve both directions."""
        stages = {"stage0": self.stage0, "stage1": self.stage1, "stage2": self.stage2}
        return stages[name.partition("-")[0]]

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries, ready for JSON."""
        return dataclasses.asdict(self)
