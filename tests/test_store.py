"""The run directory and the models loaded from it."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from test_export import MODELS, TEXTS, make_run

from wholedoc import config
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.store import checkpoint, model
from wholedoc.store import run as run_module
from wholedoc.store.model import load_model
from wholedoc.store.run import Run


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with both memories and random weights."""
    return make_run(tmp_path_factory.mktemp("both") / "run", MODELS["context"])


def test_translating_imports_nothing_of_training(both: Run) -> None:
    program = (
        "import json, sys\n"
        "from wholedoc import Translator\n"
        "found = Translator.load(sys.argv[1]).translate(['red house', 'dog']).sentences\n"
        "loaded = [name for name in sys.modules if name.startswith('wholedoc')]\n"
        "print(json.dumps([found, loaded]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(both.directory)],
        capture_output=True,
        text=True,
        check=True,
    )
    found, loaded = json.loads(done.stdout)
    assert len(found) == 2
    rooms = {name.split(".")[1] for name in loaded if "." in name}
    assert "store" in rooms
    assert rooms & {"training", "metrics", "experiment", "benchmark", "app", "cli"} == set()


def test_a_document_run_without_its_document_model_is_refused(both: Run, tmp_path: Path) -> None:
    shutil.copytree(both.directory, tmp_path / "run")
    (tmp_path / "run" / "stage2.safetensors").unlink()
    with pytest.raises(UserError, match="run: holds no trained weights yet: stage2"):
        Translator.load(tmp_path / "run")


def test_each_file_is_parsed_once(both: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (both.lexicon_file).write_text("dog\tgod\n", encoding="utf-8")
    parsed: Counter[str] = Counter()

    def count(module: object, name: str) -> None:
        function = getattr(module, name)

        def counted(path: Path, **options: str) -> object:
            parsed[Path(path).name] += 1
            return function(path, **options)

        monkeypatch.setattr(module, name, counted)

    count(config, "load_config")
    count(run_module, "load_vocabulary")
    count(model, "read_lexicon")
    count(checkpoint, "safe_open")
    translator = Translator.load(both.directory)
    translator.translate(TEXTS[0])
    translator.without_memory().translate(TEXTS[0])
    assert translator.config.model == MODELS["context"]
    assert set(parsed.values()) == {1}
    assert parsed.keys() == {
        *("config.toml", "src.vocabulary", "trg.vocabulary", "lexicon.tsv"),
        *("stage0-forward.safetensors", "stage0-backward.safetensors"),
        *("stage1.safetensors", "stage2.safetensors"),
    }


def test_a_model_is_prepared_for_search_once(both: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from wholedoc.decoding import predictor

    prepared: list[object] = []
    make = predictor.Predictor.__init__

    def counted(self: object, *arguments: object) -> None:
        prepared.append(self)
        make(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(predictor.Predictor, "__init__", counted)
    translator = Translator(load_model(both.directory))
    for _ in range(2):
        translator.translate_documents(TEXTS)
        translator.score_documents(TEXTS, TEXTS, "generated")
    assert len(prepared) == 2  # the document model, and the sentence model
