"""The configuration: frozen dataclasses, read from TOML, checked value by value.

A configuration file and a seed determine a run. Every value can be set from the command line with
``--set section.key=value``; an unknown key is refused with the nearest spelling, a value outside
its range with the range.
"""

from wholedoc.config.load import build as build
from wholedoc.config.load import find_config as find_config
from wholedoc.config.load import load_config as load_config
from wholedoc.config.load import load_model_config as load_model_config
from wholedoc.config.load import read_toml as read_toml
from wholedoc.config.load import shipped_configs as shipped_configs
from wholedoc.config.schema import Config as Config
from wholedoc.config.schema import CorpusFiles as CorpusFiles
from wholedoc.config.schema import Count as Count
from wholedoc.config.schema import CountOrZero as CountOrZero
from wholedoc.config.schema import DataConfig as DataConfig
from wholedoc.config.schema import DocumentStageConfig as DocumentStageConfig
from wholedoc.config.schema import FirstPass as FirstPass
from wholedoc.config.schema import FusionName as FusionName
from wholedoc.config.schema import Interval as Interval
from wholedoc.config.schema import MemoryName as MemoryName
from wholedoc.config.schema import ModelConfig as ModelConfig
from wholedoc.config.schema import Order as Order
from wholedoc.config.schema import ScoringMemory as ScoringMemory
from wholedoc.config.schema import SearchConfig as SearchConfig
from wholedoc.config.schema import StageConfig as StageConfig
from wholedoc.config.schema import UnknownWords as UnknownWords
from wholedoc.config.schema import VocabularyConfig as VocabularyConfig
