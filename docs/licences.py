"""Write ``docs/licences.md``: what is installed with wholedoc, directly or not, and its licences.

Run ``python docs/licences.py`` after a change of dependencies; a test compares the direct ones.
"""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Licences

wholedoc is MIT. What `pip install wholedoc` installs beside it, on Linux with Python 3.11, and under which licences; all of them let it be used by a program under MIT. MPL-2.0 asks for the source of changed files of that package; nothing of it is changed here. This page is made from the metadata of the packages by `python docs/licences.py`.

The models in the box have cards of their own: `wholedoc/models/de-en/README.md` and `wholedoc/models/et-en/README.md`.
"""  # noqa: E501 (a paragraph is a line of Markdown)
ALLOWED = frozenset(
    {
        "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause",
        "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MPL-2.0", "PSF-2.0",
        "Zlib",
    }
)  # fmt: skip
"""Compatible with a program under MIT that uses the package as it is."""
_NAMES = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}


def licences_of(name: str) -> list[str]:
    """The licences of an installed package; of alternatives and parts all are listed."""
    metadata = distribution(name).metadata
    stated = metadata.get("License-Expression") or ""
    if not stated:
        classifiers = [
            line.rpartition(" :: ")[2]
            for line in metadata.get_all("Classifier") or []
            if line.startswith("License :: ") and not line.endswith("OSI Approved")
        ]
        stated = " AND ".join(classifiers) or (metadata.get("License") or "").split("\n")[0]
    parts = re.split(
        r" (?:AND|OR) ", re.sub("[()]", "", stated) if "(ISCL)" not in stated else stated
    )
    return sorted({_NAMES.get(part, part) for part in parts})


def find_packages(name: str, found: dict[str, str] | None = None) -> dict[str, str]:
    """All packages that one needs, itself too: names as in an index, and as they are written."""
    found = {} if found is None else found
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return found
    try:
        required = distribution(name).requires or []
    except PackageNotFoundError:
        return found  # only on other systems
    found[key] = name
    for line in required:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            find_packages(requirement.name, found)
    return found


def make_page() -> str:
    """The whole page."""
    packages = {key: name for key, name in find_packages("wholedoc").items() if key != "wholedoc"}
    rows = [f"| {key} | {', '.join(licences_of(name))} |" for key, name in sorted(packages.items())]
    return "\n".join([HEAD, "| package | licences |", "|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
