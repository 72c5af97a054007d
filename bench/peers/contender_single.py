"""wholedoc with all products of training in 32 bits, as its peers have them."""

import contender_wholedoc
from task import run_step

if __name__ == "__main__":
    contender_wholedoc.SETTINGS["stage1.precision"] = "single"
    run_step(contender_wholedoc.STEPS)
