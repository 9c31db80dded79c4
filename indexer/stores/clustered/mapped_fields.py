"""The fields of an index for models and languages: they are mapped as models and languages come."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from indexer.cluster.cluster_address import AUTO
from indexer.stores.acceptance import other_width, unknown_model
from indexer.stores.clustered.document_layout import Layout, VectorFields, has_own_field
from indexer.stores.clustered.server_index import ServerIndex

MOST_FLAT = 30_000
"""Documents of a language on a shard above which the language gets a graph: a search without a graph compares all of
them. Up to this number that is about as fast, and finds the exact nearest (docs/decisions/0006)."""
_MAX_FIELDS = 90
"""Maximum languages with a field of vectors: a server reads 100 columns of a hit (``max_docvalue_fields_search``)."""
_WORDS = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
"""The mapping of a language's words: terms that Dragoman made, separated by blanks."""
_FLAT, _GRAPH = "int8_flat", "int8_hnsw"


def _with_own_field(langs: Iterable[str], existing: Collection[str]) -> list[str]:
    """Those of new languages whose vectors get a field of their own, beside the languages that have one."""
    return sorted(filter(has_own_field, langs))[: _MAX_FIELDS - len(existing)]


class MappedFields:
    """What the mapping of a store's index has for models and languages, as it was last read with the store's rights.

    A language whose words have a field is settled for each model: either its vectors have a field of their own, or
    they are in the shared field, as all are in an index of an earlier version.
    """

    def __init__(self, index: ServerIndex, layout: Layout, kind: str) -> None:
        """``kind`` is the type of the indices of new fields: ``AUTO``, or a server's type."""
        self._index, self._layout, self._kind = index, layout, kind
        self.models: Mapping[str, VectorFields] = {}
        self._languages: Collection[str] = ()

    def read(self) -> Mapping[str, VectorFields]:
        """Read the mapping; the fields of each model's vectors."""
        properties = self._index.properties()
        self.models, self._languages = self._layout.models(properties), self._layout.languages(properties)
        return self.models

    def of(self, model: str, langs: Iterable[str] = ()) -> VectorFields:
        """The fields of a model's vectors, read anew if they are unknown or a language is. Raises ModelMismatch."""
        if model not in self.models or not set(langs) <= set(self._languages):
            self.read()
        if model not in self.models:
            raise unknown_model(self._index.name, model, self.models)
        return self.models[model]

    def create(self, model: str, dim: int) -> None:
        """Map the fields of a model. Raises ModelMismatch: the model has vectors of another width."""
        fields = self.read().get(model)
        if fields is not None and fields.dim != dim:
            raise other_width(self._index.name, model, fields.dim, dim)
        if fields is None:
            kinds = self._kinds_of(["", *_with_own_field(self._languages, ())])
            self._index.put_mapping(self._layout.properties(self._layout.model_properties(model, dim, kinds)))

    def make_room(self, langs: Collection[str]) -> None:
        """Map the fields of the languages' words and vectors, in one step, so that a mapped language is settled."""
        if set(langs) <= set(self._languages):
            return
        self.read()
        missing = sorted(set(langs) - set(self._languages))
        if missing:
            inner = {"words": dict.fromkeys(missing, _WORDS)}
            for model, fields in self.models.items():
                kinds = self._kinds_of(_with_own_field(missing, fields.of_languages))
                of_model = self._layout.model_properties(model, fields.dim, kinds)["models"]
                inner["models"] = {**inner.get("models", {}), **of_model}
            self._index.put_mapping(self._layout.properties(inner))
            self.read()

    def shares(self, model: str) -> bool:
        """Whether vectors of several languages are in one field that new vectors would not be put into."""
        fields = self.read().get(model)
        return bool(fields and _with_own_field(set(self._languages) - fields.of_languages.keys(), fields.of_languages))

    def _kinds_of(self, langs: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(langs, _FLAT if self._kind == AUTO else self._kind)

    def give_graphs(self, counts: Mapping[str, int]) -> None:
        """Give a graph to fields with too many documents to compare all; the server makes it as it merges segments."""
        if self._kind != AUTO:
            return
        with self._index.store_errors():
            settings = self._index.client.indices.get_settings(index=self._index.name, name="index.number_of_shards")
        most = MOST_FLAT * int(settings[self._index.name]["settings"]["index"]["number_of_shards"])
        for model, fields in self.read().items():
            sizes = Counter[str]()
            for lang, count in counts.items():
                sizes[lang if lang in fields.of_languages else ""] += count
            grown = [lang for lang, size in sizes.items() if size > most and fields.of(lang).kind == _FLAT]
            if grown:
                inner = self._layout.model_properties(model, fields.dim, dict.fromkeys(grown, _GRAPH))
                self._index.put_mapping(self._layout.properties(inner))
