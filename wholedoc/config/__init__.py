"""The configuration: frozen dataclasses, read from TOML, checked value by value.

A configuration file and a seed determine a run. Every value can be set from the command line with
``--set section.key=value``; an unknown key is refused with the nearest spelling, a value outside
its range with the range.
"""

from wholedoc.config.load import (
    build,
    config_from_dict,
    find_config,
    load_config,
    read_toml,
    shipped_configs,
    shipped_experiments,
)
from wholedoc.config.schema import (
    Config,
    CorpusFiles,
    Count,
    CountOrZero,
    DataConfig,
    DocumentStageConfig,
    FirstPass,
    FusionName,
    Interval,
    MemoryName,
    ModelConfig,
    Order,
    ScoringMemory,
    SearchConfig,
    StageConfig,
    UnknownWords,
    VocabularyConfig,
)

__all__ = [
    "Config",
    "CorpusFiles",
    "Count",
    "CountOrZero",
    "DataConfig",
    "DocumentStageConfig",
    "FirstPass",
    "FusionName",
    "Interval",
    "MemoryName",
    "ModelConfig",
    "Order",
    "ScoringMemory",
    "SearchConfig",
    "StageConfig",
    "UnknownWords",
    "VocabularyConfig",
    "build",
    "config_from_dict",
    "find_config",
    "load_config",
    "read_toml",
    "shipped_configs",
    "shipped_experiments",
]
