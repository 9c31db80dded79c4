"""An index that Dragoman owns: how it is recognised, created, completed and removed.

Dragoman marks the mapping of each index that it creates, and writes into no other index. The name proves nothing: a
rollover alias's indices are ``PREFIX-NAME-000001`` too, and another database may use the same prefix and name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

from encoders.errors import BadInput, StoreError
from indexer.cluster import cluster_client
from indexer.cluster.cluster_address import Address, Credentials
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.server_index import ServerIndex

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_SHARDS_WITHIN = "30s"
"""How long the server waits for the shards of a new index."""
_WHOLE_WALKS = {"index.dense_vector.hnsw_enable_early_termination": False}
"""Setting of servers that otherwise leave a graph early; older servers have neither (docs/decisions/0006)."""
_YELLOW_WITHIN = "10s"
_MARK = "dragoman"
"""Key in the ``_meta`` of a mapping."""


def check_name(collection: str) -> None:
    """Check that a collection's name can be part of an index name. Raises BadInput: it can't."""
    if not _NAME.fullmatch(collection):
        raise BadInput(
            f"a collection can't be named {collection!r} on Elasticsearch; "
            "take at most 100 small letters, digits, '.', '-' and '_'"
        )


@dataclass(frozen=True)
class Claim:
    """The collection and the database that an index belongs to."""

    collection: str
    database_id: str = ""  # id of the database that has the collection; empty if the reader does not know the id
    attached: str = ""  # the user's index that a companion belongs to; empty if the index is no companion

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Self | None:
        """The claim in an index's mapping; None if the mapping has no complete claim."""
        mark = mapping.get("_meta", {}).get(_MARK)
        values = [mark.get(name) for name in ("collection", "owner", "attached")] if isinstance(mark, dict) else [None]
        return cls(*values) if all(isinstance(value, str) for value in values) else None

    def meta(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_meta`` of a mapping with this claim in it."""
        mark = {"collection": self.collection, "owner": self.database_id, "attached": self.attached}
        return {**mapping.get("_meta", {}), _MARK: mark}

    def holds(self, mapping: Mapping[str, Any], layout: Layout) -> bool:
        """Whether an index is ours: its mark says so, or it has no mark and its mapping has exactly our layout."""
        marked = Claim.of(mapping)
        if marked is None:
            return not layout.differs(mapping)
        same = (marked.collection, marked.attached) == (self.collection, self.attached)
        return same and (marked.database_id == self.database_id or not (marked.database_id and self.database_id))

    def refusal(self, server: str, index: str, mapping: Mapping[str, Any]) -> BadInput:
        """The error for an index that is not ours."""
        marked = Claim.of(mapping)
        cause = "belongs to a collection of another database"
        if marked is None:
            cause = "was not made by Dragoman"
        elif marked.attached != self.attached:
            attached = f"belongs to a collection that is attached to {marked.attached}"
            cause = attached if marked.attached else "is no companion"
        return BadInput(
            f"the index {index} on {server} {cause}, and is left alone; take another name with -c, another prefix "
            "in --store, or delete it there if nobody needs it"
        )


@dataclass(kw_only=True, eq=False)
class OwnIndex(ServerIndex):
    """The index of a generation of a collection."""

    address: Address
    claim: Claim  # the collection and the database that the index belongs to
    alias: str  # the name that other readers of the server use; empty for a companion, which nobody else reads

    @classmethod
    def of(cls, client: "Elasticsearch", address: Address, claim: Claim, generation: int = 1) -> Self:
        """The index of a collection's generation; no request is sent yet."""
        alias = _alias(address, claim.collection)
        remedy = (
            f"let it be made again (dragoman attach -c {claim.collection})"
            if claim.attached
            else f"remove the collection (dragoman delete --all -c {claim.collection}) and index it again"
        )
        name, id_field = f"{alias}-{generation:06d}", Layout(address.field).name("id")
        shown_alias = "" if claim.attached else alias
        return cls(client, address.server, name, id_field, remedy, address=address, claim=claim, alias=shown_alias)

    @property
    def layout(self) -> Layout:
        """The layout of documents."""
        return Layout(self.address.field)

    def open(self, *, make: bool) -> None:
        """Check that the index exists, is ours, and works; create it if it may be created.

        Raises BadInput: the index or its alias belongs to somebody else; StoreError: it is missing without ``make``.
        """
        with self.store_errors():
            description = _describe(self.client, self.name)
            created = description is None and self._create(make=make)
            mapping = (description or _describe(self.client, self.name) or {"mappings": {}})["mappings"]
            if not self.claim.holds(mapping, self.layout):
                raise self.claim.refusal(self.server, self.name, mapping)
            try:
                self._refuse_red()
            except StoreError:
                if created:
                    self.client.indices.delete(index=self.name)
                raise
            marked = Claim.of(mapping)
            if self.claim.database_id and not (marked and marked.database_id):
                self.client.indices.put_mapping(index=self.name, meta=self.claim.meta(mapping))
            self.stale = self._is_loading()

    def _create(self, *, make: bool) -> bool:
        """Create the index; returns false if another process created it first."""
        if not make:
            raise StoreError(self.lost)
        from elasticsearch import BadRequestError  # noqa: PLC0415

        self._aliased_indices()
        settings = {"number_of_shards": self.address.shards, "number_of_replicas": 0, "refresh_interval": "-1"}
        mapping = self.layout.mapping()
        mapping["_meta"] = self.claim.meta(mapping)
        try:
            self.client.indices.create(index=self.name, mappings=mapping, settings=settings, timeout=_SHARDS_WITHIN)
        except BadRequestError as error:
            if "resource_already_exists" not in str(error):
                raise
            return False
        self._refuse_altered()
        return True

    def _refuse_altered(self) -> None:
        """Remove a new index that an index template changed."""
        features = ["aliases", "mappings", "settings"]
        if change := _change(self.client.indices.get(index=self.name, features=features)[self.name], self.layout):
            self.client.indices.delete(index=self.name)
            templates = _templates(self.client, self.name)
            raise StoreError(
                f"an index template of {self.server} gives {self.name} {change} ({templates}); "
                "exempt the prefix there, or take another in --store"
            )

    def _aliased_indices(self) -> set[str]:
        """The indices that the alias stands for. Raises BadInput: the name is an index's, or an index is not ours."""
        if not self.alias:
            return set()
        indices = self.client.options(ignore_status=404).indices.get(index=self.alias, features=["mappings"]).body
        if "error" in indices:
            return set()
        for index, description in indices.items():
            if index == self.alias or not self.claim.holds(description["mappings"], self.layout):
                kind = "an index" if index == self.alias else f"an alias of {index}, which is not this collection's"
                raise BadInput(
                    f"{self.alias} is the name of {kind} on {self.server}, and readers of the collection would be led "
                    "there; take another name with -c, or another prefix in --store"
                )
        return set(indices)

    def _refuse_red(self) -> None:
        """Wait until the shards of a new index start; refuse an index whose shards have no node."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        try:
            health = self.client.options(ignore_status=408).cluster.health(
                index=self.name, wait_for_status="yellow", timeout=_YELLOW_WITHIN
            )
        except AuthorizationException:  # some users may not read the cluster's health; a write will fail instead
            return
        if health["status"] == "red":
            raise StoreError(
                f"shards of {self.name} on {self.server} have no node that holds them (red{self._why_red()}); "
                "see _cluster/allocation/explain there, free disk space if it is the disk, then run the command again"
            )

    def _why_red(self) -> str:
        """Why no node takes the first shard of the index, after a colon; empty if the server does not say."""
        from elasticsearch import ApiError  # noqa: PLC0415

        try:
            explained = self.client.cluster.allocation_explain(index=self.name, shard=0, primary=True)
        except ApiError:  # another shard is the one without a node, or the user may not ask
            return ""
        nodes = explained.get("node_allocation_decisions", [])
        reasons = [decider["explanation"] for node in nodes for decider in node.get("deciders", [])]
        lost = explained.get("allocate_explanation", "").partition(". ")[0]  # no node decides where every copy is lost
        return f": {(reasons or [lost])[0]}" if reasons or lost else ""

    def publish(self) -> None:
        """Give the index its replicas and refreshes, and move the alias to it in one step."""
        self.retry_while_away(self._publish)

    def _publish(self) -> None:
        aliased = self._aliased_indices()
        if self._is_loading():
            self.client.options(ignore_status=400).indices.put_settings(index=self.name, settings=_WHOLE_WALKS)
            replicas = self.address.replicas if self.address.replicas >= 0 else None
            settings = {"number_of_replicas": replicas, "refresh_interval": None}
            self.client.indices.put_settings(index=self.name, settings=settings)
        self.client.indices.refresh(index=self.name)
        self.stale = False
        if self.alias and aliased != {self.name}:
            actions = [{"remove": {"index": index, "alias": self.alias}} for index in sorted(aliased - {self.name})]
            self.client.indices.update_aliases(actions=[*actions, {"add": {"index": self.name, "alias": self.alias}}])

    def _is_loading(self) -> bool:
        """Whether the index is filled for the first time: then only readers through this store refresh it."""
        settings = self.client.indices.get_settings(index=self.name)[self.name]["settings"]
        return bool(settings["index"].get("refresh_interval") == "-1")

    def drop(self) -> None:
        """Remove the index; an index that is not ours stays."""
        with cluster_client.store_errors(self.server):
            description = _describe(self.client, self.name)
            if description and self.claim.holds(description["mappings"], self.layout):
                self.client.indices.delete(index=self.name, ignore_unavailable=True)


def drop(address: Address, claim: Claim, credentials: Credentials, generation: int = 1) -> None:
    """Remove a generation's index, even if it can't be opened any more; an index that is not ours stays."""
    with cluster_client.connect(address.server, credentials) as client:
        OwnIndex.of(client, address, claim, generation).drop()


def generations(address: Address, claim: Claim, credentials: Credentials) -> list[int]:
    """Numbers of the generations that have an index of ours. Raises StoreError: the server is away or refuses."""
    alias, layout = _alias(address, claim.collection), Layout(address.field)
    with cluster_client.store_errors(address.server), cluster_client.connect(address.server, credentials) as client:
        indices = client.indices.get(index=f"{alias}-*", features=["mappings"], expand_wildcards="all").body
    numbered = ((re.fullmatch(rf"{re.escape(alias)}-(\d{{6}})", name), index) for name, index in indices.items())
    return sorted(int(number[1]) for number, index in numbered if number and claim.holds(index["mappings"], layout))


def _alias(address: Address, collection: str) -> str:
    return f"{address.prefix}-{collection}"


def _describe(client: "Elasticsearch", index: str) -> Mapping[str, Any] | None:
    """An index with its ``mappings``; None if it is missing. An alias gets empty mappings, so it is not ours."""
    answer = client.options(ignore_status=404).indices.get(index=index, features=["mappings"]).body
    return None if "error" in answer else answer.get(index, {"mappings": {}})


def _change(description: Mapping[str, Any], layout: Layout) -> str:
    """What an index template changed in a new index; empty if nothing."""
    mapping, settings = description["mappings"], description["settings"]["index"]
    if description.get("aliases"):
        return f"the alias {min(description['aliases'])}"
    source = settings.get("mapping", {}).get("source", {}).get("mode", "stored")
    if mapping.get("_source") or source != "stored" or settings.get("mode", "standard") != "standard":
        return "another _source"
    if mapping.get("_routing"):
        return "required routing"
    return layout.differs(mapping)


def _templates(client: "Elasticsearch", index: str) -> str:
    """Names of the server's index templates that match an index, or where to look if they can't be read."""
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        templates = client.indices.get_index_template()["index_templates"]
    except ApiError:
        return "see _index_template"
    matching = [
        template["name"]
        for template in templates
        if any(fnmatchcase(index, pattern) for pattern in template["index_template"]["index_patterns"])
    ]
    return ", ".join(sorted(matching))
