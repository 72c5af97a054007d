"""A fingerprint of a corpus's files, by which a change of their content is noticed."""

import hashlib
from pathlib import Path

from wholedoc.config import CorpusFiles


def fingerprint(files: CorpusFiles) -> str | None:
    """A digest of what every file holds; None where one is missing.

    It does not depend on where the files are or when they were written.
    """
    digest = hashlib.sha256()
    for path in (Path(name) for name in (files.src, files.trg, files.doc) if name):
        members = sorted(path.iterdir()) if path.is_dir() else [path]
        for member in members:
            if not member.is_file():
                return None
            name = member.name if path.is_dir() else ""
            with member.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{name}:{content}:".encode())
    return digest.hexdigest()
