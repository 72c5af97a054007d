"""The entries of a memory in an index of OpenSearch: for memories that many machines read.

The index is made from a memory in a directory by :func:`publish`, and made anew by the next one. Of
each entry it has the texts, the encoded tokens and all places where it was found, so that matches
are those of the directory. OpenSearch finds candidates by BM25, as tantivy does there.
"""

import dataclasses
import json
import math
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wholedoc.errors import UserError
from wholedoc.tm.database import text_key
from wholedoc.tm.directory import DirectoryStore
from wholedoc.tm.entries import Entry, MemoryStatistics
from wholedoc.tm.index import MAX_TERMS
from wholedoc.tm.matching import encode_tokens, split_tokens

LOGIN_VARIABLE = "WHOLEDOC_OPENSEARCH_LOGIN"
"""``user:password``: an address is kept with results and shown in errors, so it has none."""
_FORMAT = 1
_PAGE = 1000  # entries that are sent together
_SECONDS = 60
_KEPT = {"type": "keyword", "index": False, "doc_values": False}  # as it is, found by others
_FIELDS = {
    "id": {"type": "long"},
    "version": {"type": "long"},
    "src_key": {"type": "keyword"},
    "words": {"type": "text", "analyzer": "whitespace", "norms": True},
    **dict.fromkeys(("src", "trg", "tokens", "found"), _KEPT),
}

try:
    from opensearchpy import OpenSearch
    from opensearchpy.exceptions import ImproperlyConfigured, NotFoundError, OpenSearchException
except ImportError as error:
    fix = "pip install 'wholedoc[opensearch]'"
    what = "a memory on OpenSearch needs opensearch-py"
    raise UserError(what, where="translation memory", fix=fix) from error


class OpenSearchStore:
    """An index to be read."""

    def __init__(self, address: str) -> None:
        self.place = address
        self._index, self._client = _connect(address)
        meta = self._meta()
        self.languages = meta["src_language"], meta["trg_language"]

    def candidates(self, text: str, tokens: Sequence[str], count: int) -> dict[int, str]:
        """The encoded sources of candidates by id; the same text is always among them."""
        exact = {"term": {"src_key": str(text_key(text))}}
        same = self._search(exact, 10_000, ["id", "tokens"])
        terms = list(dict.fromkeys(token.lower() for token in tokens))
        if len(terms) > MAX_TERMS:
            frequencies, _ = self._frequencies(terms)
            known = [term for term in terms if frequencies[term]]
            terms = sorted(known, key=frequencies.__getitem__)[:MAX_TERMS]
        like = self._search({"match": {"words": " ".join(terms)}}, count, ["id", "tokens"])
        return {found["id"]: found["tokens"] for found in (*same, *like)}

    def worth(self, tokens: Sequence[str]) -> list[float]:
        """How telling each token is: log(1 + entries / entries that have it), in any case."""
        terms = [token.lower() for token in tokens]
        frequencies, entries = self._frequencies(dict.fromkeys(terms))
        return [math.log(1 + entries / max(1, frequencies[term])) for term in terms]

    def sources(self, ids: Sequence[int]) -> dict[int, str]:
        """The source texts of entries."""
        return {found["id"]: found["src"] for found in self._entries(ids, ["id", "src"])}

    def details(self, ids: Sequence[int], before: str | None) -> list[tuple[Entry, bool]]:
        """Entries in full, and whether each was found after the segment ``before``."""
        key = None if before is None else text_key(before)
        found = self._entries(ids, ["id", "src", "trg", "found"])
        return [_best_place(values, key) for values in sorted(found, key=lambda each: each["id"])]

    def ids_after(self, last: int, count: int) -> list[int]:
        """The next ids after one, so many at most."""
        found = self._search({"range": {"id": {"gt": last}}}, count, ["id"], [{"id": "asc"}])
        return [values["id"] for values in found]

    def count(self) -> int:
        """How many entries there are."""
        with _name_failure(self.place):
            return int(self._client.count(index=self._index)["count"])

    def version(self) -> int:
        """That of what was published."""
        return int(self._meta()["version"])

    def last_id(self) -> int:
        """The highest id that an entry of that memory ever had."""
        return int(self._meta()["last_id"])

    def statistics(self) -> MemoryStatistics:
        """Those of the memory it was made from."""
        return MemoryStatistics(**self._meta()["statistics"])

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _meta(self) -> dict[str, Any]:
        with _name_failure(self.place):
            mapping = self._client.indices.get_mapping(index=self._index)
        (found,) = mapping.values()
        meta: dict[str, Any] = found["mappings"].get("_meta", {})
        if meta.get("format") != _FORMAT:
            fix = "make it with wholedoc tm publish"
            raise UserError("is no complete translation memory", where=self.place, fix=fix)
        return meta

    def _entries(self, ids: Sequence[int], fields: list[str]) -> list[dict[str, Any]]:
        return self._search({"terms": {"id": list(ids)}}, len(ids), fields) if ids else []

    def _search(
        self, query: dict[str, Any], count: int, fields: list[str], sort: Any = None
    ) -> list[dict[str, Any]]:
        """The fields of the documents that are found; words are weighed over all shards."""
        body = {"query": query, "size": count, "_source": fields, "track_total_hits": False}
        if sort:
            body["sort"] = sort
        with _name_failure(self.place):
            found = self._client.search(
                body=body, index=self._index, params={"search_type": "dfs_query_then_fetch"}
            )
        return [hit["_source"] for hit in found["hits"]["hits"]]

    def _frequencies(self, terms: Any) -> tuple[dict[str, int], int]:
        """How many entries have each term, and how many there are."""
        filters = {term: {"term": {"words": term}} for term in terms}
        counted = {"terms": {"filters": {"filters": filters}}}
        body = {"size": 0, "track_total_hits": True, "aggs": counted}
        with _name_failure(self.place):
            found = self._client.search(body=body, index=self._index)
        buckets = found["aggregations"]["terms"]["buckets"]
        frequencies = {term: int(bucket["doc_count"]) for term, bucket in buckets.items()}
        return frequencies, int(found["hits"]["total"]["value"])


def publish(directory: Path, address: str) -> int:
    """Put a memory of a directory into an index; returns how many entries it has.

    What the index had before and the memory has no more is removed at the end. Meanwhile readers
    find entries of both. The version is one of this publication: another memory may have the same
    one, and other entries.
    """
    store = DirectoryStore(directory)
    index, client = _connect(address)
    try:
        with _name_failure(address):
            if not client.indices.exists(index=index):
                mapping = {"dynamic": "strict", "properties": _FIELDS}
                client.indices.create(index=index, body={"mappings": mapping})
        version, last, count = secrets.randbits(62), 0, 0
        while ids := store.ids_after(last, _PAGE):
            _send(client, index, address, list(_make_documents(store, ids, version)))
            last, count = ids[-1], count + len(ids)
        src_language, trg_language = store.languages
        meta = {
            "format": _FORMAT,
            "version": version,
            "last_id": store.last_id(),
            "src_language": src_language,
            "trg_language": trg_language,
            "statistics": dataclasses.asdict(store.statistics()),
        }
        with _name_failure(address):
            client.indices.refresh(index=index)
            gone = {"query": {"bool": {"must_not": {"term": {"version": version}}}}}
            client.delete_by_query(index=index, body=gone, params={"refresh": "true"})
            client.indices.put_mapping(index=index, body={"_meta": meta})
    finally:
        store.close()
        client.close()
    return count


def _make_documents(
    store: DirectoryStore, ids: Sequence[int], version: int
) -> Iterator[dict[str, Any]]:
    places = store.occurrences(ids)
    for entry, _ in store.details(ids, None):
        tokens = split_tokens(entry.src)
        yield {
            "id": entry.id,
            "version": version,
            "src_key": str(text_key(entry.src)),
            "words": " ".join(tokens).lower(),
            "tokens": encode_tokens(tokens),
            "src": entry.src,
            "trg": entry.trg,
            "found": json.dumps(places[entry.id]),
        }


def _send(client: Any, index: str, address: str, documents: Sequence[dict[str, Any]]) -> None:
    """Index documents in one request; raises UserError where one of them is refused."""
    body: list[dict[str, Any]] = []
    for values in documents:
        body += [{"index": {"_id": str(values["id"])}}, values]
    with _name_failure(address):
        found = client.bulk(body=body, index=index)
    if found["errors"]:
        refused = next(
            each["index"]["error"] for each in found["items"] if "error" in each["index"]
        )
        raise UserError(f"refuses an entry ({refused})", where=address, fix="see the server's log")


def _best_place(values: dict[str, Any], before: int | None) -> tuple[Entry, bool]:
    """An entry at the best place where it was found, as the directory chooses it."""
    places = json.loads(values["found"])
    same = [before is not None and place[-1] == before for place in places]
    best = max(range(len(places)), key=lambda n: (same[n], places[n][3], -n))
    document, place, origin, date, _ = places[best]
    head = values["id"], values["src"], values["trg"]
    return Entry(*head, document, place, origin, date, len(places)), same[best]


def _connect(address: str) -> tuple[str, Any]:
    """The name of an index and a client, from ``opensearch://HOST:PORT/INDEX``."""
    parts = urlsplit(address)
    index = parts.path.strip("/")
    if parts.username or parts.password:
        fix = f"set {LOGIN_VARIABLE}=user:password"
        raise UserError("an address has no login", where=parts.hostname or "", fix=fix)
    if not parts.hostname or not index or "/" in index:
        fix = "give opensearch://HOST:PORT/INDEX, or https://HOST:PORT/INDEX"
        raise UserError("is no address of an index", where=address, fix=fix)
    scheme = "http" if parts.scheme == "opensearch" else parts.scheme
    login = os.environ.get(LOGIN_VARIABLE, "")
    with _name_failure(address):
        return index, OpenSearch(
            f"{scheme}://{parts.netloc}",
            http_auth=tuple(login.split(":", 1)) if login else None,
            timeout=_SECONDS,
        )


@contextmanager
def _name_failure(address: str) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        fix = "check the address, or make it with wholedoc tm publish"
        raise UserError("no such translation memory", where=address, fix=fix) from error
    except (OpenSearchException, ImproperlyConfigured) as error:
        what = f"cannot be read or written ({' '.join(str(error).split())[:200]})"
        raise UserError(what, where=address, fix="check that the server is there") from error
