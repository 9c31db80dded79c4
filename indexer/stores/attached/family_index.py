"""Several indices on a server as one, whose documents have the ids ``INDEX/ID``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indexer.stores.clustered.server_index import ServerIndex

_SEPARATOR = "/"
"""Stands between an index's name, which has none, and the id of its document."""
_GONE = "index_not_found_exception"


@dataclass(eq=False, kw_only=True)
class FamilyIndex(ServerIndex):
    """Several indices; documents of other indices are missing, whatever their ids."""

    members: Sequence[str]  # names of the indices; ``name`` may be a pattern or an alias that stands for them

    def properties(self) -> Mapping[str, Any]:
        """The mapped fields of all indices."""
        with self.store_errors():
            answer = self.client.indices.get_mapping(index=self.name)
        return merged([answer[name]["mappings"].get("properties", {}) for name in sorted(answer)])

    def places(self, doc_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Where the server has documents of these indices."""
        ids = (doc_id.partition(_SEPARATOR) for doc_id in doc_ids)
        return [{"_index": index, "_id": own_id} for index, _, own_id in ids if own_id and index in self.members]

    def id_of(self, hit: Mapping[str, Any]) -> str:
        """The index's name, and the id there."""
        return f"{hit['_index']}{_SEPARATOR}{hit['_id']}"

    def ids_query(self, doc_ids: Iterable[str]) -> dict[str, Any]:
        """A query that finds documents by their ids, in each index its own."""
        by_index: dict[str, list[str]] = {}
        for place in self.places(sorted(doc_ids)):
            by_index.setdefault(place["_index"], []).append(place["_id"])
        of_each = [
            {"bool": {"filter": [{"term": {"_index": name}}, {"ids": {"values": own_ids}}]}}
            for name, own_ids in by_index.items()
        ]
        return {"bool": {"should": of_each}} if of_each else {"match_none": {}}

    def existing(self, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The documents that exist, from the answers of an ``_mget``; an index may be gone with its documents."""
        return super().existing(item for item in answers if item.get("error", {}).get("type") != _GONE)


def merged(properties: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of several mappings; a field that several have is mapped as in the first of them."""
    fields: dict[str, Any] = {}
    for mapped_fields in properties:
        for name, mapped in mapped_fields.items():
            before = fields.get(name)
            if before and "properties" in before and "properties" in mapped:
                fields[name] = {**before, "properties": merged([before["properties"], mapped["properties"]])}
            else:
                fields.setdefault(name, mapped)
    return fields
