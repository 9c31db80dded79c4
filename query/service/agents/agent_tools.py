"""The tools that agents call by the Model Context Protocol (MCP): search, similar, document, collections."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

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
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from encoders.phrases import counted
from encoders.printable import one_line
from query.ranking.search_hits import explanation
from query.service.agents.tool_messages import (
    DOCUMENT_CHARACTERS,
    CollectionsArguments,
    DocumentArguments,
    SearchArguments,
    SimilarArguments,
    ToolCollectionsAnswer,
    ToolDocumentAnswer,
    ToolHit,
    ToolSearchAnswer,
    ToolSimilarAnswer,
    ToolVersion,
    field_text,
    short_facets,
    short_fields,
)
from query.service.api_messages import HitAnswer, SearchRequest, SimilarRequest
from query.service.api_routes import Api
from query.service.refusals import Refused, refusal

_INSTRUCTIONS = (
    "Dragoman finds documents in any language for a query in any language. Do not translate the query. "
    "The tool collections lists what can be searched, search finds documents, similar finds documents similar to "
    "a document, in other languages, document returns a document's text."
)

_Arguments = TypeVar("_Arguments", bound=BaseModel)


@dataclass(frozen=True)
class _AgentTool:
    title: str
    description: str
    arguments: type[BaseModel]
    answer: type[BaseModel]
    call: Callable[[Any], Awaitable[BaseModel]]  # returns the answer to valid arguments
    text: Callable[[Any], str]  # the answer for a reader

    def definition(self, name: str) -> Tool:
        return Tool(
            name=name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.answer.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )

    async def result(self, arguments: dict[str, Any]) -> CallToolResult:
        """The answer, or a sentence that says why there is none."""
        try:
            stated = {name: value for name, value in arguments.items() if value is not None}
            answer = await self.call(_validated(self.arguments, stated))
        except Exception as error:  # noqa: BLE001 - a failure is an answer; its details are in the log
            return CallToolResult(content=[TextContent(text=str(refusal(error)))], is_error=True)
        structured = answer.model_dump(mode="json")
        return CallToolResult(content=[TextContent(text=self.text(answer))], structured_content=structured)


class AgentTools:
    """The tools, which answer as ``/api`` does; their searches are not logged, as no person typed them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._tools: dict[str, _AgentTool] = {
            "search": _AgentTool(
                "Find documents in any language",
                "Finds documents about a query, best first, whatever their language. Each hit has the document's id, "
                "language, title and fields, the passage that answers best, and why it was found. Documents about the "
                "same thing are one hit, in a preferred language, else the query's; also has the others.",
                SearchArguments,
                ToolSearchAnswer,
                self._search,
                _search_text,
            ),
            "similar": _AgentTool(
                "Find documents similar to a document",
                "Finds the documents most similar to a document, by its id, best first; in other languages than its "
                "own unless languages are named.",
                SimilarArguments,
                ToolSimilarAnswer,
                self._similar,
                _similar_text,
            ),
            "document": _AgentTool(
                "Read a document",
                f"Returns a document's text by its id, at most {DOCUMENT_CHARACTERS:,} characters; give the last "
                "answer's end as start to read the next part.",
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
        if (tool := self._tools.get(params.name)) is None:
            raise MCPError(
                INVALID_PARAMS, f"there is no tool {one_line(params.name)!r} (there are: {', '.join(self._tools)})"
            )
        return await tool.result(params.arguments or {})

    async def _search(self, arguments: SearchArguments) -> ToolSearchAnswer:
        optional = {name: getattr(arguments, name) or None for name in ("lang", "to", "prefer")}
        own = {"explain": True, "log": False}
        request = _validated(SearchRequest, {**arguments.model_dump(), **optional, **own})
        answer = await self._api.search(request)
        facets = short_facets(answer.facets) if answer.facets else None
        hits = [_tool_hit(hit, answer.balance) for hit in answer.hits]
        return ToolSearchAnswer(**{**vars(answer), "hits": hits, "facets": facets})

    async def _similar(self, arguments: SimilarArguments) -> ToolSimilarAnswer:
        request = _validated(SimilarRequest, {**arguments.model_dump(), "to": arguments.to or None})
        answer = await self._api.similar(request)
        return ToolSimilarAnswer(**{**vars(answer), "hits": list(map(_tool_hit, answer.hits))})

    async def _document(self, arguments: DocumentArguments) -> ToolDocumentAnswer:
        answer = await self._api.document(arguments.id, arguments.collection)
        content = f"{answer.title}\n{answer.text}" if answer.title else answer.text
        start = min(arguments.start, len(content))
        fields, omitted = short_fields(answer.fields)
        end = min(start + DOCUMENT_CHARACTERS, len(content))
        part = {"text": content[start:end], "start": start, "end": end, "length": len(content)}
        return ToolDocumentAnswer(**{**vars(answer), **part, "fields": fields, "omitted_fields": omitted})

    async def _collections(self, _: CollectionsArguments) -> ToolCollectionsAnswer:
        return ToolCollectionsAnswer(**(await self._api.collections()).model_dump())


def _tool_hit(hit: HitAnswer, balance: float = 1.0) -> ToolHit:
    fields, omitted = short_fields(hit.fields)
    similarity = f"Its similarity, with what its mates add, is {hit.score:.3f}."
    why = f"{explanation(hit.parts, hit.score, balance)}." if hit.parts else similarity
    passage, start = (hit.passage.text, hit.passage.start) if hit.passage else ("", 0)
    own = {"passage": passage, "start": start, "why": why, "fields": fields, "omitted_fields": omitted}
    return ToolHit(**{**vars(hit), **own, "also": [ToolVersion(**vars(version)) for version in hit.also]})


def _hits_text(hits: Sequence[ToolHit]) -> list[str]:
    return [
        _joined(
            f"{rank}. [{hit.lang}] {one_line(hit.title) or '(no title)'} "
            f"(id {one_line(hit.id)}, score {hit.score:.3f}, start {hit.start})",
            _fields_text(hit.fields, hit.omitted_fields),
            hit.passage,
            f"Why: {hit.why}",
            f"{hit.alike:,} more are nearly the same" if hit.alike else "",
            *(f"Also: [{one.lang}] {one_line(one.title) or '(no title)'} (id {one_line(one.id)})" for one in hit.also),
        )
        for rank, hit in enumerate(hits, start=1)
    ]


def _search_text(answer: ToolSearchAnswer) -> str:
    unread = f"The end of the query was not read: {answer.unread}" if answer.unread else ""
    head = f"{counted(len(answer.hits), 'document')} of {answer.collection} for a query in {answer.lang}"
    if answer.reranking is not None:
        head += f"; reranking took {answer.reranking:,} ms"
    lines = []
    if facets := answer.facets:
        lines = [f"The best {facets.counted} of {counted(facets.total, 'document')} searched:"]
        for name, counts in facets.counts.items():
            values = [f"{value} ({count})" for value, count in counts.items()]
            values += [f"{facets.omitted[name]} more"] if name in facets.omitted else []
            lines.append(one_line(f"{name}: {', '.join(values)}"))
    return _joined(head, answer.note, unread, *_hits_text(answer.hits), _joined(*lines), between="\n\n")


def _similar_text(answer: ToolSimilarAnswer) -> str:
    head = f"{counted(len(answer.hits), 'document')} of {answer.collection} like {one_line(answer.id)} [{answer.lang}]"
    return _joined(head, *_hits_text(answer.hits), between="\n\n")


def _document_text(answer: ToolDocumentAnswer) -> str:
    head = f"{one_line(answer.id)} [{answer.lang}], characters {answer.start} to {answer.end} of {answer.length}"
    return _joined(_joined(head, _fields_text(answer.fields, answer.omitted_fields)), answer.text, between="\n\n")


def _fields_text(fields: Mapping[str, Any], omitted: Sequence[str]) -> str:
    pairs = [f"{name}: {field_text(value)}" for name, value in fields.items()]
    return one_line("; ".join([*pairs, *([f"left out: {', '.join(omitted)}"] if omitted else [])]))


def _collections_text(answer: ToolCollectionsAnswer) -> str:
    lines = [
        f"{collection.name}: {counted(collection.documents, 'document')} in "
        + ", ".join(f"{lang} ({count:,})" for lang, count in collection.languages.items())
        for collection in answer.collections
    ]
    away = [f"{name}: {sentence}" for name, sentence in answer.away.items()]
    return "\n".join([*lines, *away]) or "there are no collections"


def _joined(*parts: str, between: str = "\n") -> str:
    return between.join(part for part in parts if part)


def _validated(model: type[_Arguments], arguments: dict[str, Any]) -> _Arguments:
    """The arguments as a model. Raises Refused: an argument is missing, unknown or not valid."""
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        first_problems: dict[tuple[int | str, ...], ErrorDetails] = {}
        for problem in error.errors():
            first_problems.setdefault(problem["loc"][:1], problem)
        sentences = [_problem(problem) for problem in first_problems.values()]
        raise Refused(422, one_line("; ".join(sentences[:5]))) from None


def _problem(problem: ErrorDetails) -> str:
    sentence = problem.get("ctx", {}).get("error")
    return str(sentence) if sentence else f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
