"""A fingerprint of a corpus's files, by which a change of their content is noticed."""

import hashlib
from pathlib import Path

from wholedoc.config import CorpusFiles

_ENDS = 2**16


def fingerprint(files: CorpusFiles) -> str | None:
    """A digest of the size, the beginning and the end of every file; None where one is missing.

    It does not depend on where the files are or when they were written.
    """
    digest = hashlib.sha256()
    for path in (Path(name) for name in (files.src, files.trg, files.doc) if name):
        members = sorted(path.iterdir()) if path.is_dir() else [path]
        for member in members:
            if not member.is_file():
                return None
            size = member.stat().st_size
            with member.open("rb") as stream:
                digest.update(f"{member.name if path.is_dir() else ''}:{size}:".encode())
                digest.update(stream.read(_ENDS))
                stream.seek(max(0, size - _ENDS))
                digest.update(stream.read())
    return digest.hexdigest()
