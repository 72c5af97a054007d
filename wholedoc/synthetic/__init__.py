"""The artificial corpus: documents in which known words need the document to be translated right.

Three kinds of words depend on a document's hidden world: the *pronoun* (gender), words with several
senses (*topic*) and *names* (style). The best accuracy any translator can reach on them is known
exactly. ``docs/artificial-corpus.md`` describes the language.
"""

from wholedoc.synthetic.bounds import INFORMATION as INFORMATION
from wholedoc.synthetic.bounds import KINDS as KINDS
from wholedoc.synthetic.bounds import Bound as Bound
from wholedoc.synthetic.bounds import Information as Information
from wholedoc.synthetic.bounds import KeyItem as KeyItem
from wholedoc.synthetic.bounds import Kind as Kind
from wholedoc.synthetic.bounds import expect as expect
from wholedoc.synthetic.language import SynthConfig as SynthConfig
from wholedoc.synthetic.language import build_language as build_language
from wholedoc.synthetic.writing import SPLITS as SPLITS
from wholedoc.synthetic.writing import write_synth as write_synth
