"""Requests and answers as JSON; OpenAPI shows their docstrings and descriptions."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from encoders.printable import has_surrogate
from indexer.stores.collection_names import NAME
from query.ranking.search_hits import LANGUAGE_FACET, ScoreParts

MOST = 1000
"""Maximum number of hits of one search."""
MOST_FACETS = 10
"""Maximum number of facets of one search."""
LONGEST = 10_000
"""Maximum number of characters of a query."""
_NOT_BLANK = r"[^\s\x1c-\x1f\x85\ufeff]"
"""A character that no reader of the schema takes for a blank."""

Scalar = str | int | float | bool


def check_query(query: str) -> str:
    """The query, if it is not blank."""
    if not query.strip():
        raise ValueError("the query is empty; type what you look for")
    return query


def as_integer(value: Any) -> Any:
    """A number without a fraction as an integer: to JSON Schema 10.0 is the integer 10."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Code = Annotated[str, Field(min_length=1, max_length=35)]
CollectionName = Annotated[str, Field(max_length=100, pattern=rf"^(?:{NAME.pattern})?$")]
_Query = Annotated[
    str, Field(min_length=1, max_length=LONGEST, json_schema_extra={"pattern": _NOT_BLANK}), AfterValidator(check_query)
]
_Count = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(as_integer)]
DocumentId = Annotated[str, Field(min_length=1, max_length=600)]
Range = Annotated[dict[Literal["gte", "lte"], str | int | float], Field(min_length=1)]
_FilterValue = Annotated[
    Annotated[Scalar, Tag("value")]
    | Annotated[Range, Tag("range")]
    | Annotated[list[Scalar], Field(max_length=MOST), Tag("list")],
    Discriminator(lambda value: "range" if isinstance(value, dict) else "list" if isinstance(value, list) else "value"),
]
_Filters = Annotated[
    dict[str, _FilterValue],
    Field(
        default_factory=dict,
        max_length=50,
        description="Values that a document's fields must have; a list means any of its values, an object a range.",
    ),
]
_Languages = Annotated[list[Code], Field(min_length=1, max_length=200)]


class RepeatedName(ValueError):
    """A name stands twice in an object of JSON: readers differ in the value that they take."""


def unique_names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, for ``json.loads``. Raises RepeatedName: a name stands in it twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RepeatedName("a name stands in it twice")
    return members


class StrictModel(BaseModel):
    """A request that takes no other names, no values of other types and no half characters."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_characters(cls, value: Any) -> Any:
        if has_surrogate(value):
            raise ValueError("half of a surrogate pair is no character; leave it out")
        return value


class SearchRequest(StrictModel):
    """A query; ranking settings that are left out are those of the collection's calibration."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "Hochwasser an der Elbe", "to": ["en", "fr"], "k": 10},
                {"query": "眠れない夜", "lang": "ja", "balance": 0.75, "filters": {"label": "health"}, "explain": True},
            ]
        }
    )

    query: _Query = Field(description="What to look for, in any language.")
    collection: CollectionName = Field("", description="Name of the collection; may be empty if only one is served.")
    lang: Code | None = Field(None, description="Language of the query (BCP 47); detected unless given.")
    to: _Languages | None = Field(None, description="Languages of documents; all unless given.")
    k: _Count = Field(10, description="How many hits.")
    balance: float | None = Field(None, ge=0, le=1, description="0: nothing is balanced, 1: every language equal.")
    hybrid: bool | None = Field(None, description="Let shared words change the order within a language.")
    rerank: bool = Field(False, description="Order the best 30 hits by the service's reranker, which takes longer.")
    calibration: str = Field("", max_length=64, description="Beginning of an id, or none; the active one if empty.")
    filters: _Filters
    facets: list[Annotated[str, Field(min_length=1, max_length=600)]] = Field(
        default_factory=list,
        max_length=MOST_FACETS,
        description=f"Names of fields, or {LANGUAGE_FACET}: count the best documents by their values.",
    )
    subjects: bool = Field(True, description="Show documents about the same thing as one hit; false: each as a hit.")
    prefer: _Languages | None = Field(
        None, description="Languages in which a subject is shown where it can be; the query's unless given."
    )
    explain: bool = Field(False, description="Say what each score is made of.")
    log: bool = Field(
        True, description="Keep the query in the query log, if there is one; false for queries that nobody typed."
    )


class SimilarRequest(StrictModel):
    """A document, to find similar ones in other languages."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "en-17", "collection": "news", "k": 5}]})

    id: DocumentId = Field(description="Id of the document.")
    collection: CollectionName = Field("", description="Name of the collection; may be empty if only one is served.")
    to: _Languages | None = Field(
        None, description="Languages of the similar documents; all but the document's own unless given."
    )
    k: _Count = Field(10, description="How many hits.")
    filters: _Filters


class PassageAnswer(BaseModel):
    """The part of a document that answers best; places count characters of title, line break and text."""

    text: str
    start: int
    end: int
    cosine: float


class PartsAnswer(ScoreParts):
    """What a score is made of."""


class HitAnswer(BaseModel):
    """A document that was found."""

    id: str
    lang: str
    score: float = Field(description="Orders the hits of one search; it measures nothing. The cosine stands beside.")
    cosine: float
    title: str
    fields: dict[str, Any]
    passage: PassageAnswer | None
    parts: PartsAnswer | None = None
    also: "list[HitAnswer]" = Field(
        default_factory=list,
        description="Other documents about the same thing, one of a language, best first, unless subjects is false.",
    )
    alike: int = Field(0, description="Hits of this language that are nearly the same and left out for this one.")


class FacetsAnswer(BaseModel):
    """Counts of a search's best documents."""

    total: int = Field(
        description="Documents of the wanted languages that pass the filters. All of them are ranked, the far ones at "
        "the end, so not all are answers."
    )
    counted: int = Field(
        description="The best of these, which are counted: the first fifty, or k if that is more; those of the k "
        "subjects unless subjects is false."
    )
    counts: dict[str, dict[str, int]] = Field(
        description="By facet, how many of the counted documents have each value, the largest count first. Values are "
        "texts that a filter takes; a document whose field is a list counts for each of its items."
    )


class SearchAnswer(BaseModel):
    """Documents, best first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "Hochwasser an der Elbe",
                    "lang": "de",
                    "confidence": 0.99,
                    "collection": "news",
                    "space": "5b1c0d8f7e6a4932",
                    "calibration": "9f3e2a1b0c4d5e6f",
                    "balance": 0.5,
                    "took": 21,
                    "good": 1,
                    "note": "",
                    "unread": "",
                    "search": None,
                    "hits": [
                        {
                            "id": "en-17",
                            "lang": "en",
                            "score": 1.213,
                            "cosine": 0.874,
                            "title": "Dresden under water",
                            "fields": {"label": "weather"},
                            "passage": {"text": "The Elbe rose …", "start": 20, "end": 141, "cosine": 0.88},
                        }
                    ],
                }
            ]
        }
    )

    query: str
    lang: str = Field(description="Language of the query.")
    confidence: float | None = Field(description="How sure the detection was; none where the language was given.")
    collection: str
    space: str = Field(description="Id of model and calibration.")
    calibration: str | None
    balance: float
    took: int = Field(description="Milliseconds.")
    reranking: int | None = Field(
        None, description="Milliseconds of these that reranking took; null if the search was not reranked."
    )
    good: int | None = Field(
        description="How many first hits fit the query better than other queries; 0: no good answer; null: unknown."
    )
    note: str = Field(description="What to know about the answer: no good answer, an unsure language; usually empty.")
    unread: str = Field(description="The end of a query that is longer than the encoder reads.")
    search: str | None = Field(
        description="Id of the search in the query log, for /api/clicks; null if the search is not logged."
    )
    hits: list[HitAnswer]
    facets: FacetsAnswer | None = Field(None, description="Counts of the best documents, if facets are named.")


class SimilarAnswer(BaseModel):
    """The documents that are most similar to a document, best first."""

    id: str
    lang: str = Field(description="Language of the document.")
    collection: str
    space: str = Field(description="Id of model and calibration.")
    took: int = Field(description="Milliseconds.")
    hits: list[HitAnswer]


class CalibrationAnswer(BaseModel):
    """What makes languages comparable."""

    id: str
    balance: float
    mates: bool = Field(
        description="Whether documents about the same thing in several languages take part in each other's scores."
    )


class CollectionAnswer(BaseModel):
    """A collection."""

    name: str
    encoder: str = Field(
        description="Encoder of the queries; after a migration the documents' vectors may be another encoder's."
    )
    method: str
    model: str
    documents: int
    languages: dict[str, int]
    calibration: CalibrationAnswer | None
    hybrid: bool = Field(description="Whether searches are hybrid unless they say otherwise.")
    reranker: str | None = Field(description="Name of the reranker that searches may ask for; null if there is none.")


class CollectionsAnswer(BaseModel):
    """The collections that are served."""

    collections: list[CollectionAnswer]
    away: dict[str, str] = Field(description="Why a collection can't be searched now, by name.")


class DocumentAnswer(BaseModel):
    """A document."""

    id: str
    lang: str
    title: str
    text: str
    fields: dict[str, Any]


class Click(StrictModel):
    """A hit that somebody opened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"search": "0b5c7a4e9f2d41c38a6e5d4c3b2a1908", "id": "en-17"}]}
    )

    search: str = Field(pattern="^[0-9a-f]{32}$")
    id: DocumentId


class ErrorAnswer(BaseModel):
    """Why there is no answer."""

    error: str = Field(description="A sentence.")


class Health(BaseModel):
    """Whether the service runs."""

    status: str


class Readiness(BaseModel):
    """Whether it answers searches."""

    ready: bool
    collections: dict[str, str] = Field(description="By name: ready, empty, opening, or why it can't be searched.")
