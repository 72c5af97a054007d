"""The log of a run: one JSON object per line, and TensorBoard where asked for."""

import json
import time
from pathlib import Path

from wholedoc.errors import UserError
from wholedoc.files import name_file


class RunLog:
    """Appends events to ``log.jsonl``, and their values to TensorBoard where that is asked for."""

    def __init__(self, directory: Path, tensorboard: bool = False) -> None:
        self.path = directory / "log.jsonl"
        self._board = None
        if tensorboard:
            try:
                from torch.utils.tensorboard.writer import SummaryWriter
            except ImportError as error:
                raise UserError(
                    "TensorBoard is not installed",
                    where="tensorboard = true",
                    fix="run: pip install 'wholedoc[tensorboard]'",
                ) from error
            self._board = SummaryWriter(str(directory / "tensorboard"))

    def write(self, event: str, stage: str = "", **values: float | str) -> None:
        """One line: the event, the stage, the wall clock and the values."""
        self.append({"event": event, "stage": stage, "time": round(time.time(), 3), **values})
        if self._board is not None:
            step = int(values.get("updates", 0))
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{stage}/{event}/{name}", value, step)
            self._board.flush()

    def append(self, record: dict[str, float | str]) -> None:
        """One line, as it is."""
        with name_file(self.path), self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def read_log(directory: Path) -> list[dict[str, float | str]]:
    """All events of a run, in order."""
    path = directory / "log.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
