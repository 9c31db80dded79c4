"""Checks of a user's index before anything is attached to it: each obstacle is one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from encoders.errors import BadInput, StoreError
from indexer.cluster import index_changes
from indexer.cluster.cluster_errors import NotAllowed
from indexer.cluster.field_mapping import is_ours, keeps_no_source, source_mode
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.own_index import Claim

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_MAX_CHECKED = 1000
_FULL_DISK = "read_only_allow_delete"
"""The block that the server sets, and lifts again, by the use of its disks."""
_RIGHTS = {True: ("read", "view_index_metadata", "monitor", "maintenance"), False: ("read", "index", "manage")}
"""Rights on the user's index that a companion needs (True), and that attaching in place needs (False)."""


def check(client: Elasticsearch, users: UsersIndex, model: str) -> None:
    """Refuse an index that vectors can't be attached to without harm to its owner. Raises BadInput, with advice."""
    if claim := Claim.of(users.mapping):
        raise BadInput(
            f"{users.name} is where Dragoman stores the collection {claim.collection}, which is searched as it is; "
            "attach an index that somebody else writes"
        )
    _check_source(users)
    _check_rights(client, users)
    if users.mapping.get("_routing", {}).get("required", False) or _has_documents_with(client, users, "_routing"):
        raise BadInput(
            f"documents of {users.name} are placed by routing values, so an id alone does not find them; "
            f"index it into a collection of its own: dragoman index elastic:{users.name} -c NAME"
        )
    if not users.attachment.companion:
        _check_writable(users)
        _check_field(client, users, model)
        _check_versions(client, users)


def is_external(hit: Mapping[str, Any]) -> bool:
    """Whether a document has an external version: the server's own version never exceeds the sequence number + 1."""
    return bool(hit["_version"] > hit["_seq_no"] + 1)


def _check_source(users: UsersIndex) -> None:
    source = users.mapping.get("_source", {})
    if keeps_no_source(users.mapping, users.settings):
        raise BadInput(
            f"{users.name} keeps no _source, so its texts can't be read; index the documents from where they came"
        )
    excluded = source.get("excludes", [])
    included = source.get("includes", [])
    for path in users.paths.values():
        if _matches(path, excluded) or (included and not _matches(path, included)):
            raise BadInput(
                f"{users.name} leaves {path!r} out of its _source, so it can't be read; "
                "index the documents from where they came"
            )
    if users.attachment.companion:
        return
    if excluded or included:
        raise BadInput(
            f"{users.name} leaves fields out of its _source, and an update would lose them from its index for good; "
            "attach with --companion, which writes nothing there"
        )
    mode = source_mode(users.mapping, users.settings)
    if mode == "synthetic" or (mode is None and users.settings.get("mode") in {"logsdb", "time_series"}):
        raise BadInput(
            f"{users.name} has a synthetic _source, which an update would write anew; "
            "attach with --companion, which writes nothing there"
        )


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a field or an object that contains the field."""
    names = path.split(".")
    prefixes = [".".join(names[:length]) for length in range(1, len(names) + 1)]
    return any(fnmatchcase(prefix, pattern) for prefix in prefixes for pattern in patterns)


def _check_rights(client: Elasticsearch, users: UsersIndex) -> None:
    from elasticsearch import ApiError  # noqa: PLC0415

    needed = _RIGHTS[bool(users.attachment.companion)]
    with users.index.store_errors():
        try:
            answer = client.security.has_privileges(index=[{"names": [users.name], "privileges": list(needed)}])
        except ApiError as error:
            if error.status_code == 401:
                raise
            return  # without security no rights are known, and none are needed
    lacking = [right for right, granted in answer["index"][users.name].items() if not granted]
    if lacking:
        raise NotAllowed(
            f"{users.attachment.server} gives this user no right to {', '.join(sorted(lacking))} on {users.name}; "
            f"attaching needs {', '.join(needed)}" + ("" if users.attachment.companion else ", or --companion")
        )


def _has_documents_with(client: Elasticsearch, users: UsersIndex, field: str) -> bool:
    """Whether any document has a field."""
    with users.index.store_errors():
        return index_changes.count(client, users.name, {"exists": {"field": field}}) > 0


def _check_writable(users: UsersIndex) -> None:
    blocks = [name for name, on in users.settings.get("blocks", {}).items() if on == "true" and name != "metadata"]
    if _FULL_DISK in blocks:
        raise StoreError(
            f"{users.attachment.server} lets nobody write into {users.name}, because a disk of its nodes is too full "
            f"(the block {_FULL_DISK}); free disk space there, then run the command again"
        )
    if blocks:
        raise BadInput(f"{users.name} has the block {blocks[0]!r}; lift it, or attach with --companion")


def _check_field(client: Elasticsearch, users: UsersIndex, model: str) -> None:
    field = users.attachment.field
    layout = Layout(field)
    if users.mapping.get("subobjects") is False:
        raise BadInput(
            f"{users.name} takes no objects (subobjects: false), and {field!r} is one; attach with --companion"
        )
    mapped = users.properties.get(field)
    if mapped is None:
        return
    if not is_ours(mapped):
        raise BadInput(f"{users.name} has a field {field!r} that is not Dragoman's; name ours otherwise with --field")
    reads = mapped["properties"]["id"].get("meta", users.attachment.reads)
    if reads != users.attachment.reads and _has_documents_with(client, users, layout.name("id")):
        fields_read = ", ".join(f"{name} {value}" for name, value in reads.items() if value)
        raise BadInput(
            f"{users.name} holds vectors of other fields ({fields_read}) in {field!r}, of another collection "
            "or database; name another field with --field"
        )
    for other in layout.models(users.properties).keys() - {model}:
        if _has_documents_with(client, users, layout.vectors(other)):
            raise BadInput(
                f"{users.name} holds vectors of another model ({other}) in {field!r}; detach that collection first, "
                "or name another field with --field"
            )


def _check_versions(client: Elasticsearch, users: UsersIndex) -> None:
    with users.index.store_errors():
        numbers: dict[str, Any] = {"source": False, "version": True, "seq_no_primary_term": True, "sort": ["_seq_no"]}
        answer = client.search(index=users.name, size=_MAX_CHECKED, allow_partial_search_results=False, **numbers)
    if any(is_external(hit) for hit in answer["hits"]["hits"]):
        raise BadInput(
            f"the owner of {users.name} numbers the versions of its documents (external versioning), so after an "
            "update of ours the server might refuse the owner's next write; attach with --companion, which writes "
            "nothing there"
        )
