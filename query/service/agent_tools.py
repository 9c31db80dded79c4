"""The tools that agents call by the Model Context Protocol (MCP): search, document, collections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Generic, TypeVar

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from encoders.printable import one_line
from encoders.wording import counted
from query.ranking.hits import ScoreParts
from query.service.messages import HitAnswer, Scalar, SearchRequest, StrictModel, as_integer, check_query
from query.service.refusals import Refused, refusal
from query.service.routes import Api

_INSTRUCTIONS = (
    "Dragoman finds documents in any language for a query in any language. Do not translate the query. "
    "The tool collections lists what can be searched, search finds documents, document reads one."
)
_CHARACTERS = 20_000
"""Maximum number of characters that one call of the tool document returns."""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class SearchArguments(StrictModel):
    """Arguments of the tool search."""

    query: Annotated[str, AfterValidator(check_query)] = Field(
        description="What to look for: a question, a sentence or words, in any language."
    )
    collection: str = Field("", description="Name of the collection; may be left out if there is only one.")
    lang: str = Field("", description="Language of the query, such as ja; detected if left out.")
    to: list[str] = Field([], description='Languages of the documents, such as ["en", "ja"]; all if left out.')
    k: Annotated[int, Field(ge=1, le=100), BeforeValidator(as_integer)] = Field(10, description="Number of hits.")
    filters: dict[str, Scalar | list[Scalar]] = Field(
        {},
        description='Values that a document\'s fields must have, such as {"label": "health"}; of a list, any one.',
    )


class DocumentArguments(StrictModel):
    """Arguments of the tool document."""

    id: str = Field(max_length=600, description="Id of the document, as a hit has it.")
    collection: str = Field(
        "", max_length=100, description="Name of the collection; may be left out if there is only one."
    )
    start: Annotated[int, Field(ge=0), BeforeValidator(as_integer)] = Field(
        0, description="First character to return, such as a hit's start."
    )


class CollectionsArguments(StrictModel):
    """The tool collections has no arguments."""


class ToolHit(BaseModel):
    """A document that was found."""

    id: str
    lang: str = Field(description="Language of the document.")
    title: str
    passage: str = Field(description="The passage that answers best; empty if the document has none.")
    start: int = Field(description="First character of the passage in the document, for the tool document.")
    score: float = Field(description="Hits are ordered by it; it is comparable within one search only.")
    why: str = Field(description="Why the document was found.")
    fields: dict[str, Any] = Field(description="Other fields of the document, such as its url.")


class ToolSearchAnswer(BaseModel):
    """Documents, best first."""

    collection: str
    lang: str = Field(description="Language of the query, stated or detected.")
    unread: str = Field(description="The end of a query that is too long to be read whole; usually empty.")
    hits: list[ToolHit]


class ToolDocumentAnswer(BaseModel):
    """A document, or a part of it."""

    id: str
    lang: str
    title: str
    text: str = Field(description=f"Title, line break and text, from start on; at most {_CHARACTERS:,} characters.")
    start: int
    end: int = Field(description="Start of the next part; equal to length if there is none.")
    length: int = Field(description="Characters of title, line break and text.")
    fields: dict[str, Any]


class ToolCollection(BaseModel):
    """A collection that can be searched."""

    name: str
    documents: int
    languages: dict[str, int] = Field(description="Number of documents by language.")


class ToolCollectionsAnswer(BaseModel):
    """The collections."""

    collections: list[ToolCollection]
    away: dict[str, str] = Field(description="Why a collection can't be searched now, by name.")


_Arguments = TypeVar("_Arguments", bound=BaseModel)
_Answer = TypeVar("_Answer", bound=BaseModel)


@dataclass(frozen=True)
class _AgentTool(Generic[_Arguments, _Answer]):
    """A tool.

    Attributes:
        call: returns the answer to valid arguments.
        text: the answer for a reader.
    """

    title: str
    description: str
    arguments: type[_Arguments]
    answer: type[_Answer]
    call: Callable[[_Arguments], Awaitable[_Answer]]
    text: Callable[[_Answer], str]

    def definition(self, name: str) -> Tool:
        """The tool as agents see it."""
        return Tool(
            name=name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.answer.model_json_schema(mode="serialization"),
            annotations=_READS,
        )

    async def result(self, arguments: dict[str, Any]) -> CallToolResult:
        """The answer, or a sentence that says why there is none."""
        try:
            answer = await self.call(_validated(self.arguments, arguments))
        except Exception as error:  # noqa: BLE001 - a failure is an answer; its details are in the log
            return _text_result(str(refusal(error)), is_error=True)
        result = _text_result(self.text(answer))
        result.structured_content = answer.model_dump(mode="json")
        return result


class AgentTools:
    """The tools, which answer as ``/api`` does and refuse what it refuses.

    Their searches are not in the query log, which is for queries that people typed.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._tools: dict[str, _AgentTool[Any, Any]] = {
            "search": _AgentTool(
                "Find documents in any language",
                "Finds documents about a query, best first, whatever their language. Each hit has the document's id, "
                "language, title and fields, the passage that answers best, and why it was found.",
                SearchArguments,
                ToolSearchAnswer,
                self._search,
                _search_text,
            ),
            "document": _AgentTool(
                "Read a document",
                f"Returns a document's text by its id, at most {_CHARACTERS:,} characters; start reads on.",
                DocumentArguments,
                ToolDocumentAnswer,
                self._document,
                _document_text,
            ),
            "collections": _AgentTool(
                "List collections",
                "Lists the collections that can be searched, with their languages and numbers of documents.",
                CollectionsArguments,
                ToolCollectionsAnswer,
                self._collections,
                _collections_text,
            ),
        }

    def server(self) -> Server[Any]:
        """An MCP server with these tools, for any transport."""
        return Server(
            "dragoman",
            version=version("dragoman"),
            title="Dragoman",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool.definition(name) for name, tool in self._tools.items()])

    async def _call(self, _: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS, f"there is no tool {one_line(params.name)!r} (there are: {', '.join(self._tools)})"
            )
        return await tool.result(params.arguments or {})

    async def _search(self, arguments: SearchArguments) -> ToolSearchAnswer:
        optional = {"lang": arguments.lang or None, "to": arguments.to or None}
        request = _validated(SearchRequest, {**arguments.model_dump(), **optional, "explain": True, "log": False})
        answer = await self._api.search(request)
        hits = [_tool_hit(hit) for hit in answer.hits]
        return ToolSearchAnswer(collection=answer.collection, lang=answer.lang, unread=answer.unread, hits=hits)

    async def _document(self, arguments: DocumentArguments) -> ToolDocumentAnswer:
        answer = await self._api.document(arguments.id, arguments.collection)
        content = f"{answer.title}\n{answer.text}" if answer.title else answer.text
        start = min(arguments.start, len(content))
        text = content[start : start + _CHARACTERS]
        return ToolDocumentAnswer(
            id=answer.id,
            lang=answer.lang,
            title=answer.title,
            text=text,
            start=start,
            end=start + len(text),
            length=len(content),
            fields=answer.fields,
        )

    async def _collections(self, _: CollectionsArguments) -> ToolCollectionsAnswer:
        answer = await self._api.collections()
        collections = [
            ToolCollection(name=collection.name, documents=collection.documents, languages=collection.languages)
            for collection in answer.collections
        ]
        return ToolCollectionsAnswer(collections=collections, away=answer.away)


def explanation(parts: ScoreParts, lang: str) -> str:
    """A sentence that says why a document in a language was found where it is."""
    sentence = f"Its similarity to the query is {parts.compared:.3f}"
    if parts.passage is not None and parts.opening is not None:
        sentence += f" (best passage {parts.passage:.3f}, opening {parts.opening:.3f})"
    if parts.fwd is not None and parts.bwd is not None:
        fits = "it fits this query better than others" if parts.fits else "it fits other queries as well as this one"
        sentence += (
            f"; the nearest documents in {lang} have {parts.fwd:.3f} on average, "
            f"other queries near this document {parts.bwd:.3f}: {fits}"
        )
    if parts.mate is not None and parts.lift:
        sentence += f"; {parts.mate}, a better hit about the same thing, lifts its score by {parts.lift:.3f}"
    if parts.words is not None:
        sentence += f"; its BM25 score is {parts.words:.2f} of the best document's"
    return f"{sentence}."


def _tool_hit(hit: HitAnswer) -> ToolHit:
    return ToolHit(
        id=hit.id,
        lang=hit.lang,
        title=hit.title,
        passage=hit.passage.text if hit.passage else "",
        start=hit.passage.start if hit.passage else 0,
        score=hit.score,
        why=explanation(hit.parts, hit.lang) if hit.parts else "",
        fields=hit.fields,
    )


def _search_text(answer: ToolSearchAnswer) -> str:
    hits = [
        f"{rank}. [{hit.lang}] {one_line(hit.title) or '(no title)'} (id {one_line(hit.id)}, score {hit.score:.3f})\n"
        f"{hit.passage}\nWhy: {hit.why}"
        for rank, hit in enumerate(answer.hits, start=1)
    ]
    unread = f"The end of the query was not read: {answer.unread}" if answer.unread else ""
    head = f"{counted(len(hits), 'document')} of {answer.collection} for a query in {answer.lang}"
    return _paragraphs([head, unread, *hits])


def _document_text(answer: ToolDocumentAnswer) -> str:
    head = f"{answer.id} [{answer.lang}], characters {answer.start} to {answer.end} of {answer.length}"
    return _paragraphs([head, answer.text])


def _collections_text(answer: ToolCollectionsAnswer) -> str:
    lines = [
        f"{collection.name}: {counted(collection.documents, 'document')} in "
        + ", ".join(f"{lang} ({count:,})" for lang, count in collection.languages.items())
        for collection in answer.collections
    ]
    away = [f"{name} can't be searched now: {sentence}" for name, sentence in answer.away.items()]
    return "\n".join([*lines, *away]) or "there are no collections"


def _paragraphs(paragraphs: Sequence[str]) -> str:
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def _validated(model: type[_Arguments], arguments: dict[str, Any]) -> _Arguments:
    """The arguments as a model.

    Raises:
        Refused: an argument is missing, unknown or not valid.
    """
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        raise Refused(422, one_line("; ".join(_problem(problem) for problem in error.errors()[:5]))) from None


def _problem(problem: ErrorDetails) -> str:
    sentence = problem.get("ctx", {}).get("error")
    return str(sentence) if sentence else f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
