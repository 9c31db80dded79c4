"""Arguments and answers of the tools for agents; agents see their descriptions."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from query.ranking.search_hits import LANGUAGE_FACET
from query.service.api_messages import (
    LONGEST,
    MOST_FACETS,
    CollectionName,
    DocumentId,
    FacetsAnswer,
    Range,
    Scalar,
    StrictModel,
    as_integer,
    check_query,
)

DOCUMENT_CHARACTERS = 20_000
"""Maximum number of characters that one call of the tool document returns."""
_FIELD_CHARACTERS = 1000
"""Maximum number of characters of a field in an answer."""
_FACET_VALUES = 12
"""Maximum number of values of a facet in an answer, as many as the page shows at first."""
_OMITTED = f"Names of the fields that are left out, as they have more than {_FIELD_CHARACTERS:,} characters."


def short_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields that an answer has, and the names of those that are too long for it."""
    short = {name: value for name, value in fields.items() if len(field_text(value)) <= _FIELD_CHARACTERS}
    return short, [name for name in fields if name not in short]


def short_facets(facets: FacetsAnswer) -> "ToolFacets":
    """The facets that an answer has: of each the largest counts of values that are not too long."""
    short = {
        name: [(value, count) for value, count in counts.items() if len(value) <= _FIELD_CHARACTERS][:_FACET_VALUES]
        for name, counts in facets.counts.items()
    }
    return ToolFacets(
        total=facets.total,
        counted=facets.counted,
        counts={name: dict(pairs) for name, pairs in short.items()},
        omitted={name: more for name, pairs in short.items() if (more := len(facets.counts[name]) - len(pairs))},
    )


def field_text(value: Any) -> str:
    """A field's value as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _check_filter(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """A filter's value, refused by one sentence instead of one for each type that it may have."""
    try:
        return validate(value)
    except ValidationError:
        raise ValueError(
            "a filter is a string, a number, true, false, a list of these, or bounds gte and lte"
        ) from None


_Collection = Annotated[
    CollectionName, Field(description="Name of the collection; may be left out if there is only one.")
]
_Count = Annotated[int, Field(ge=1, le=100), BeforeValidator(as_integer)]
_Filters = Annotated[
    dict[str, Annotated[Scalar | list[Scalar] | Range, WrapValidator(_check_filter)]],
    Field(
        default_factory=dict,
        description='Values that a document\'s fields must have, such as {"label": "health"}; '
        'a list means any of its values, {"gte": 1990, "lte": 1999} a range.',
    ),
]


class SearchArguments(StrictModel):
    """Arguments of the tool search."""

    query: Annotated[str, Field(max_length=LONGEST), AfterValidator(check_query)] = Field(
        description="What to look for: a question, a sentence or words, in any language."
    )
    collection: _Collection = ""
    lang: str = Field("", description="Language of the query, such as ja; detected if left out.")
    to: list[str] = Field([], description='Languages of the documents, such as ["en", "ja"]; all if left out.')
    prefer: list[str] = Field(
        [], description='Languages in which a document is shown where it can be, such as ["de"]; the query\'s first.'
    )
    k: _Count = Field(10, description="Number of hits.")
    filters: _Filters
    facets: Annotated[list[str], Field(max_length=MOST_FACETS)] = Field(
        [], description=f"Names of fields, or {LANGUAGE_FACET}: count the best documents by their values."
    )
    rerank: bool = Field(
        False, description="Order the best 30 hits by the service's reranker; slower. Refused where there is none."
    )


class SimilarArguments(StrictModel):
    """Arguments of the tool similar."""

    id: DocumentId = Field(description="Id of the document, as a hit has it.")
    collection: _Collection = ""
    to: list[str] = Field([], description="Languages of the similar documents; all but the document's own if left out.")
    k: _Count = Field(10, description="Number of documents.")
    filters: _Filters


class DocumentArguments(StrictModel):
    """Arguments of the tool document."""

    id: DocumentId = Field(description="Id of the document, as a hit has it.")
    collection: _Collection = ""
    start: Annotated[int, Field(ge=0), BeforeValidator(as_integer)] = Field(
        0, description="First character to return, such as a hit's start."
    )


class CollectionsArguments(StrictModel):
    """The tool collections has no arguments."""


class ToolVersion(BaseModel):
    """A document about the same thing as a hit, usually in another language."""

    id: str
    lang: str = Field(description="Language of the document.")
    title: str


class ToolHit(BaseModel):
    """A document that was found."""

    id: str
    lang: str = Field(description="Language of the document.")
    title: str
    passage: str = Field(description="The passage that answers best; empty if the document has none.")
    start: int = Field(description="First character of the passage in the document, for the tool document.")
    score: float = Field(
        description="Hits are ordered by it, or by that of the best document in also; it is comparable within one "
        "search only."
    )
    why: str = Field(description="Why the document was found.")
    fields: dict[str, Any] = Field(description="Other fields of the document, such as its url.")
    omitted_fields: list[str] = Field(description=_OMITTED)
    also: list[ToolVersion] = Field(description="Other documents about the same thing, best first.")
    alike: int = Field(description="Hits of its language that are nearly the same and left out.")


class ToolFacets(FacetsAnswer):
    """Counts of a search's best documents, of the most frequent values."""

    omitted: dict[str, int] = Field(
        description=f"By facet, how many further values are left out: a facet has the {_FACET_VALUES} most frequent, "
        f"of at most {_FIELD_CHARACTERS:,} characters."
    )


class ToolSearchAnswer(BaseModel):
    """Documents, best first."""

    collection: str
    lang: str = Field(description="Language of the query, stated or detected.")
    note: str = Field(description="Whether there is no good answer, and whether the language is unsure; usually empty.")
    unread: str = Field(description="The end of a query that is too long to be read whole; usually empty.")
    reranking: int | None = Field(description="Milliseconds that reranking took; null if the hits were not reranked.")
    hits: list[ToolHit]
    facets: ToolFacets | None = Field(description="Counts of the best documents, if facets were named.")


class ToolSimilarAnswer(BaseModel):
    """The documents that are most similar to a document, best first."""

    collection: str
    id: str = Field(description="Id of the document that they are similar to.")
    lang: str = Field(description="Language of that document.")
    hits: list[ToolHit]


class ToolDocumentAnswer(BaseModel):
    """A document, or a part of it."""

    id: str
    lang: str
    title: str
    text: str = Field(
        description=f"Title, line break and text, from start on; at most {DOCUMENT_CHARACTERS:,} characters."
    )
    start: int
    end: int = Field(description="Start of the next part; equal to length if there is none.")
    length: int = Field(description="Characters of title, line break and text.")
    fields: dict[str, Any]
    omitted_fields: list[str] = Field(description=_OMITTED)


class ToolCollection(BaseModel):
    """A collection that can be searched."""

    name: str
    documents: int
    languages: dict[str, int] = Field(description="Number of documents by language.")
    reranker: str | None = Field(description="Name of the reranker that searches may ask for; null if there is none.")


class ToolCollectionsAnswer(BaseModel):
    """The collections."""

    collections: list[ToolCollection]
    away: dict[str, str] = Field(description="Why a collection can't be searched now, by name.")
