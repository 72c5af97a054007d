"""A small OpenSearch on loopback: the requests that wholedoc sends, with BM25 of its own.

It is strict where a real server is: unknown requests, queries and fields are refused, an unknown
index is a 404, and documents are found after a refresh. It is not a real server: lengths are exact
in BM25, where Lucene rounds them, and there is one shard.
"""

import json
import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Values = dict[str, Any]


class Index:
    """Documents by id, those that are found and those that wait for a refresh."""

    def __init__(self, mappings: Values) -> None:
        self.mappings = mappings
        self.documents: dict[str, Values] = {}
        self.waiting: dict[str, Values] = {}

    def bulk(self, lines: list[Values]) -> Values:
        items: list[Values] = []
        for action, values in zip(lines[::2], lines[1::2], strict=True):
            number = action["index"]["_id"]
            unknown = values.keys() - self.mappings["properties"].keys()
            if unknown and self.mappings.get("dynamic") == "strict":
                error = {"type": "strict_dynamic_mapping_exception", "reason": sorted(unknown)}
                items.append({"index": {"_id": number, "status": 400, "error": error}})
            else:
                self.waiting[number] = values
                items.append({"index": {"_id": number, "status": 201}})
        return {"errors": any("error" in each["index"] for each in items), "items": items}

    def refresh(self) -> None:
        self.documents |= self.waiting
        self.waiting = {}

    def search(self, body: Values) -> Values:
        allowed = {"query", "size", "_source", "sort", "track_total_hits", "aggs"}
        assert body.keys() <= allowed, body
        query = body.get("query", {"match_all": {}})
        scores = self._scores(query)
        order = sorted(scores, key=scores.__getitem__, reverse=True)  # else as they were added
        if "sort" in body:
            ((field, way),) = body["sort"][0].items()
            assert way == "asc"
            order.sort(key=lambda number: self.documents[number][field])
        hits = [
            {
                "_id": number,
                "_source": {name: self.documents[number][name] for name in body["_source"]},
            }
            for number in order[: body.get("size", 10)]
        ]
        found: Values = {"hits": {"hits": hits}}
        if body.get("track_total_hits"):
            found["hits"]["total"] = {"value": len(scores), "relation": "eq"}
        for name, wanted in body.get("aggs", {}).items():
            filters = wanted["filters"]["filters"]
            buckets = {key: {"doc_count": len(self._scores(q))} for key, q in filters.items()}
            found.setdefault("aggregations", {})[name] = {"buckets": buckets}
        return found

    def delete(self, query: Values) -> Values:
        gone = self._scores(query)
        for number in gone:
            del self.documents[number]
        return {"deleted": len(gone)}

    def _scores(self, query: Values) -> dict[str, float]:
        """The documents that a query finds, with their scores."""
        ((kind, given),) = query.items()
        if kind == "match_all":
            return dict.fromkeys(self.documents, 1.0)
        if kind == "bool":
            ((clause, inner),) = given.items()
            assert clause == "must_not"
            out = self._scores(inner)
            return {number: 0.0 for number in self.documents if number not in out}
        ((field, wanted),) = given.items()
        assert self.mappings["properties"][field].get("index", True), f"{field} is not indexed"
        if kind == "match":
            return self._bm25(field, wanted.split())
        is_text = self.mappings["properties"][field]["type"] == "text"
        found = {}
        for number, values in self.documents.items():
            held = values[field].split() if is_text else [values[field]]
            if kind == "range":
                fits = held[0] > wanted["gt"]
            else:
                assert kind in ("term", "terms"), kind
                fits = any(each in held for each in (wanted if kind == "terms" else [wanted]))
            if fits:
                found[number] = 1.0
        return found

    def _bm25(self, field: str, terms: list[str]) -> dict[str, float]:
        """Σ idf · tf / (tf + k1 (1 − b + b · length / average length)), k1 = 1.2, b = 0.75."""
        counts = {number: Counter(v[field].split()) for number, v in self.documents.items()}
        average = sum(each.total() for each in counts.values()) / max(len(counts), 1)
        scores: dict[str, float] = {}
        for term in terms:
            having = [number for number, each in counts.items() if term in each]
            idf = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
            for number in having:
                often, length = counts[number][term], counts[number].total()
                weight = often / (often + 1.2 * (0.25 + 0.75 * length / average))
                scores[number] = scores.get(number, 0.0) + idf * weight
        return scores


class _Handler(BaseHTTPRequestHandler):
    indices: dict[str, Index]

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size).decode("utf-8")
        name, _, action = urlsplit(self.path).path.strip("/").partition("/")
        try:
            code, values = self.serve(name, action, text)
        except (AssertionError, KeyError, ValueError) as error:
            code, values = 400, {"error": {"type": "bad_request", "reason": repr(error)}}
        data = json.dumps(values).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def serve(self, name: str, action: str, text: str) -> tuple[int, Values]:
        lines = [json.loads(line) for line in text.splitlines()] if text else [{}]
        if self.command == "PUT" and not action:
            self.indices[name] = Index(lines[0]["mappings"])
            return 200, {"acknowledged": True}
        if name not in self.indices:
            return 404, {"error": {"type": "index_not_found_exception"}, "status": 404}
        index, body = self.indices[name], lines[0]
        if not action:
            return 200, {}
        if action == "_mapping":
            index.mappings.update(body if self.command == "PUT" else {})
            return 200, {name: {"mappings": index.mappings}}
        if action == "_refresh":
            index.refresh()
            return 200, {}
        if action == "_count":
            return 200, {"count": len(index.documents)}
        if action == "_delete_by_query":
            return 200, index.delete(body["query"])
        known = {"_bulk": lambda: index.bulk(lines), "_search": lambda: index.search(body)}
        return 200, known[action]()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (as it is called)
        """Say nothing."""


@contextmanager
def serve_opensearch() -> Iterator[str]:
    """Serve on loopback; gives ``opensearch://HOST:PORT``."""
    handler = type(
        "Handler", (_Handler,), {"indices": {}, "protocol_version": "HTTP/1.1", "wbufsize": -1}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"opensearch://127.0.0.1:{server.server_port}"
        server.shutdown()
