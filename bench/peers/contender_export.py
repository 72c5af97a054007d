"""The model that wholedoc has trained, exported: 8 bits and a shortlist."""

import shutil
import subprocess

from contender_wholedoc import decode, wholedoc
from task import Numbers, Task, run_step


def export(task: Task) -> Numbers:
    """Make the export."""
    model = task.run / "model"
    if model.exists():
        shutil.rmtree(model)  # of a step that was broken off
    subprocess.run(wholedoc("export", task.run.with_name("wholedoc") / "model", model), check=True)
    return {}


if __name__ == "__main__":
    run_step({"export": export, "decode": decode})
