"""An agent, here the SDK's own client, finds and reads what the service finds, and is refused in its sentences."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import httpx
import pytest
from httpx2 import AsyncClient
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, Tool

from encoders.errors import MissingPart
from indexer.collection.settings import Settings
from query.query_log.query_log_tables import SearchRow
from query.ranking.searcher import Searcher
from query.service.access import Token
from query.service.agents import agent_tools, tool_messages
from query.service.agents.agent_tools import AgentTools
from query.service.api_messages import (
    LONGEST,
    CollectionsAnswer,
    DocumentAnswer,
    FacetsAnswer,
    SearchAnswer,
    SearchRequest,
    SimilarRequest,
)
from query.service.api_routes import Api
from query.service.open_collections import OpenCollections
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from trials.servers.service import serving
from trials.service_attacks import SECRET

QUERY = {"query": "Wie backe ich Brot ohne gekaufte Hefe?", "lang": "de"}


@contextmanager
def opened(settings: Settings, rerank: str | None = None) -> Iterator[Api]:
    options, metrics = ServiceOptions(settings, device="cpu", rerank=rerank), Metrics()
    with closing(OpenCollections(options, metrics)) as served, closing(SearchThreads(options, metrics)) as threads:
        yield Api(served, threads, metrics, None, hybrid=False)


@pytest.fixture
def api(calibrated_by_words: Settings) -> Iterator[Api]:
    with opened(calibrated_by_words) as made:
        yield made


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def call(api: Api, tool: str, **arguments: Any) -> CallToolResult:
    async def called() -> CallToolResult:
        async with Client(AgentTools(api).server()) as client:  # the client holds answers against their schema
            return await client.call_tool(tool, arguments)

    return asyncio.run(called())


def found_by(api: Api, **asked: Any) -> SearchAnswer:
    """What the service answers, by subjects as an agent is answered."""
    return asyncio.run(api.search(SearchRequest.model_validate({**QUERY, "subjects": True, **asked})))


def refused(api: Api, tool: str, **arguments: Any) -> str:
    result = call(api, tool, **arguments)
    assert result.is_error
    assert result.structured_content is None
    return text(result)


def test_there_are_four_tools_that_say_what_each_argument_is_and_change_nothing(api: Api) -> None:
    async def tools() -> list[Tool]:
        async with Client(AgentTools(api).server()) as client:
            return (await client.list_tools()).tools

    listed = {tool.name: tool for tool in asyncio.run(tools())}
    assert list(listed) == ["search", "similar", "document", "collections"]
    for tool in listed.values():
        assert tool.description
        assert tool.output_schema
        assert tool.annotations
        assert tool.annotations.read_only_hint
        arguments = tool.input_schema["properties"]
        assert all(argument["description"] for argument in arguments.values())
        assert "collection" not in arguments or arguments["collection"]["pattern"]
        assert "collection" not in arguments or arguments["collection"]["maxLength"] == 100
    assert listed["search"].input_schema["properties"]["query"]["maxLength"] == LONGEST


def test_search_finds_what_the_service_finds_and_says_language_passage_and_why(api: Api) -> None:
    answer = found_by(api, k=20, explain=True)
    result = call(api, "search", **QUERY, k=20)
    found = result.structured_content
    assert (found["collection"], found["lang"], found["unread"], found["note"]) == ("demo", "de", "", answer.note)
    preferring = call(api, "search", **QUERY, prefer=["ja"]).structured_content["hits"]
    assert preferring[0]["lang"] == "ja"
    assert {hit["id"] for hit in (preferring[0], *preferring[0]["also"])} >= {answer.hits[0].id}
    for hit, expected in zip(found["hits"], answer.hits, strict=True):
        assert (hit["id"], hit["lang"], hit["score"]) == (expected.id, expected.lang, expected.score)
        assert hit["fields"] == expected.fields
        assert expected.passage
        assert expected.parts
        assert (hit["passage"], hit["start"]) == (expected.passage.text, expected.passage.start)
        assert f"{expected.parts.compared:.3f}" in hit["why"]
        assert hit["why"].endswith(".")
        place, label = f"start {hit['start']})\n", f"label: {hit['fields']['label']}"
        for shown in (f"[{hit['lang']}]", hit["title"], hit["id"], place, label, hit["passage"], hit["why"]):
            assert shown in text(result)
        assert hit["also"] == [{"id": one.id, "lang": one.lang, "title": one.title} for one in expected.also]
        for one in hit["also"]:
            assert f"\nAlso: [{one['lang']}] {one['title']} (id {one['id']})" in text(result)
    assert any(hit["also"] for hit in found["hits"])


def test_search_takes_languages_fields_and_a_number(api: Api) -> None:
    found = call(api, "search", **QUERY, to=["en", "fr"], filters={"label": "digital"}, k=3.0).structured_content
    assert {hit["lang"] for hit in found["hits"]} <= {"en", "fr"}
    assert [hit["fields"]["label"] for hit in found["hits"]] == ["digital"] * 3


def test_search_counts_the_best_documents_by_their_short_values(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent values are shown, and how many are left out."""
    monkeypatch.setattr(tool_messages, "_FACET_VALUES", 2)
    whole = found_by(api, facets=["lang", "label"]).facets
    assert whole
    result = call(api, "search", **QUERY, facets=["lang", "label"])
    facets = result.structured_content["facets"]
    assert f"The best {whole.counted} of {whole.total} documents searched:\nlang: " in text(result)
    value, count = next(iter(whole.counts["label"].items()))
    assert f"\nlabel: {value} ({count}), " in text(result)
    assert call(api, "search", **QUERY).structured_content["facets"] is None
    for name, counts in whole.counts.items():
        assert list(facets["counts"][name].items()) == list(counts.items())[:2]
        assert facets["omitted"][name] == len(counts) - 2 > 0
        assert f", {len(counts) - 2} more\n" in f"{text(result)}\n"
    long = {"x": {"long" * 300: 3, "short": 2}, "y": {"z": 1}}
    short = tool_messages.short_facets(FacetsAnswer(total=9, counted=5, counts=long))
    assert (short.total, short.counted, short.omitted) == (9, 5, {"x": 1})
    assert short.counts == {"x": {"short": 2}, "y": {"z": 1}}


def test_similar_finds_what_the_service_finds(api: Api) -> None:
    asked = {"id": "demo:de:sourdough", "k": 4, "filters": {"label": ["food", "home"]}}
    answer = asyncio.run(api.similar(SimilarRequest.model_validate(asked)))
    result = call(api, "similar", **asked, to=None)
    found = result.structured_content
    assert (found["collection"], found["id"], found["lang"]) == ("demo", "demo:de:sourdough", "de")
    expected = [(hit.id, hit.score, hit.lang) for hit in answer.hits]
    assert [(hit["id"], hit["score"], hit["lang"]) for hit in found["hits"]] == expected
    assert text(result).startswith("4 documents of demo like demo:de:sourdough [de]\n\n1. [")
    assert f"Why: Its similarity, with what its mates add, is {answer.hits[0].score:.3f}." in text(result)
    assert {hit["lang"] for hit in call(api, "similar", id=asked["id"], to=["ja"]).structured_content["hits"]} == {"ja"}


def test_an_argument_that_is_null_counts_as_left_out(api: Api) -> None:
    expected = call(api, "search", **QUERY).structured_content
    nulls = dict.fromkeys(("collection", "to", "k", "filters"))
    assert call(api, "search", **QUERY, **nulls).structured_content == expected
    assert not call(api, "search", query=QUERY["query"], lang=None).is_error


def test_long_fields_are_left_out_and_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (hit,) = call(api, "search", **QUERY, k=1).structured_content["hits"]
    assert hit["fields"]
    assert hit["omitted_fields"] == []
    lengths = {name: len(tool_messages.field_text(value)) for name, value in hit["fields"].items()}
    longest = max(lengths, key=lambda name: lengths[name])
    monkeypatch.setattr(tool_messages, "_FIELD_CHARACTERS", lengths[longest] - 1)
    found = call(api, "search", **QUERY, k=1)
    read = call(api, "document", id=hit["id"])
    for answer, result in ((found.structured_content["hits"][0], found), (read.structured_content, read)):
        assert longest in answer["omitted_fields"]
        assert {*answer["fields"], *answer["omitted_fields"]} == {*hit["fields"]}
        assert longest not in answer["fields"]
        assert f"left out: {', '.join(answer['omitted_fields'])}" in text(result)


def test_texts_of_a_document_and_of_a_collection_that_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def document(*_: str) -> DocumentAnswer:
        return DocumentAnswer(id="a\nb", lang="de", title="", text="Hefe", fields={"url": "x\ny", "year": 1995})

    async def collections() -> CollectionsAnswer:
        return CollectionsAnswer(collections=[], away={"z": "the collection can't be searched now"})

    monkeypatch.setattr(api, "document", document)
    monkeypatch.setattr(api, "collections", collections)
    assert text(call(api, "document", id="a")) == "a\\nb [de], characters 0 to 4 of 4\nurl: x\\ny; year: 1995\n\nHefe"
    assert text(call(api, "collections")) == "z: the collection can't be searched now"


def test_document_reads_on_from_the_passage_of_a_hit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (hit,) = call(api, "search", **QUERY, k=1).structured_content["hits"]
    read = call(api, "document", id=hit["id"], collection="demo", start=hit["start"]).structured_content
    assert read["text"].startswith(hit["passage"])
    assert (read["lang"], read["title"], read["fields"]) == (hit["lang"], hit["title"], hit["fields"])
    monkeypatch.setattr(agent_tools, "DOCUMENT_CHARACTERS", 50)
    parts, end, length = [], 0, read["length"]
    while end < length:
        part = call(api, "document", id=hit["id"], start=end).structured_content
        parts.append(part["text"])
        assert len(part["text"]) == part["end"] - part["start"] <= 50
        end = part["end"]
    whole = asyncio.run(api.document(hit["id"]))
    assert "".join(parts) == f"{whole.title}\n{whole.text}"
    assert call(api, "document", id=hit["id"], start=10 * length).structured_content["text"] == ""


def test_collections_are_named_with_their_languages(api: Api, calibrated_by_words: Settings) -> None:
    result = call(api, "collections")
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        languages = dict(searcher.languages)
    demo = {"name": "demo", "documents": sum(languages.values()), "languages": languages, "reranker": None}
    assert result.structured_content == {"collections": [demo], "away": {}}
    assert text(result).startswith(f"demo: {sum(languages.values())} documents in ")


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("search", {"query": "a", "collection": "news"}, "there is no collection 'news' (there are: demo)"),
        ("search", {**QUERY, "to": ["fi"]}, "collection demo has no documents in 'fi'; it has "),
        ("search", {**QUERY, "filters": {"x": "1"}}, "no document has the field 'x' (the fields: "),
        ("search", {**QUERY, "k": 101}, "k: Input should be less than or equal to 100"),
        ("search", {"query": "a" * (LONGEST + 1)}, "query: String should have at most 10000 characters"),
        (
            "search",
            {**QUERY, "filters": {"x": {}, "y": [{}, {}]}, "to": [1, 2], "k": "ten"},
            "to.0: Input should be a valid string; k: Input should be a valid integer; "
            "a filter is a string, a number, true, false, a list of these, or bounds gte and lte",
        ),
        ("search", {"text": "a"}, "query: Field required; text: Extra inputs are not permitted"),
        ("similar", {"id": "nothing"}, "collection demo has no document of this id"),
        ("document", {"id": "nothing"}, "collection demo has no document of this id"),
        ("collections", {"all": True}, "all: Extra inputs are not permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_refuses_in_the_service_s_sentences(api: Api, tool: str, arguments: dict[str, Any], sentence: str) -> None:
    assert refused(api, tool, **arguments).startswith(sentence)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MissingPart("/home/me/secret"), r"the collection can't be searched as it is; the log says why$"),
        (RuntimeError("/home/me/secret"), "the service failed; its log has more under [^/]*$"),
    ],
)
def test_failures_have_no_details(api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Searcher, "search", failing)
    assert re.match(sentence, refused(api, "search", **QUERY))


def test_a_tool_that_is_not_there_is_refused_by_the_protocol(api: Api) -> None:
    async def find() -> None:
        async with Client(AgentTools(api).server()) as client:
            with pytest.raises(MCPError, match=r"no tool 'find' \(there are: search, similar, document, collections\)"):
                await client.call_tool("find", {})

    asyncio.run(find())


@asynccontextmanager
async def connected(service: httpx.Client, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """The SDK's client of a service, at ``/mcp``."""
    async with (
        AsyncClient(headers=headers) as http,
        Client(streamable_http_client(str(service.base_url.join("/mcp")), http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def guarded(calibrated_by_words: Settings) -> Iterator[httpx.Client]:
    """The service with a token, which the client does not send."""
    with serving(ServiceOptions(calibrated_by_words, device="cpu", tokens=(Token.of("me", SECRET),))) as client:
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_service_has_the_tools_at_mcp_for_those_who_have_a_token(guarded: httpx.Client, mode: str) -> None:
    """By the protocol of 2026 and by those before it."""

    async def found(**headers: str) -> Any:
        async with connected(guarded, mode, **headers) as client:
            return (await client.call_tool("search", {**QUERY, "k": 5})).structured_content

    authorization = {"Authorization": f"Bearer {SECRET}"}
    answer = guarded.post("/api/search", json={**QUERY, "k": 5, "subjects": True}, headers=authorization).json()
    hits = asyncio.run(found(**authorization))["hits"]
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in answer["hits"]]
    for headers in ({}, {"Authorization": f"Bearer {SECRET[::-1]}"}):
        assert guarded.post("/mcp", json={}, headers=headers).status_code == 401
        with pytest.raises(ExceptionGroup):
            asyncio.run(found(**headers))


def test_mcp_is_guarded_as_the_rest_of_the_service(guarded: httpx.Client) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "Accept": "application/json, text/event-stream"}
    search = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": QUERY}}

    def status(body: Any = search, path: str = "/mcp", **more: str) -> int:
        return guarded.post(path, json=body, headers={**headers, **more}).status_code

    assert status() == status(path="/mcp/") == 200
    assert status(Authorization="") == 401
    assert status(Host="elsewhere.example") == 421
    assert status(Origin="https://elsewhere.example") == 403
    assert status({**search, "more": "x" * 1_000_000}) == 413
    for method in ("GET", "PUT", "DELETE"):
        assert {guarded.request(method, path, headers=headers).status_code for path in ("/mcp", "/mcp/")} == {405}
    assert "token is needed" in guarded.post("/mcp/", json=search).json()["error"]
    assert 'dragoman_requests_total{route="/mcp",status="200"}' in guarded.get("/metrics", headers=headers).text
    assert "/mcp" not in guarded.get("/openapi.json", headers=headers).text


def test_searches_of_agents_are_not_logged(calibrated_by_words: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []

    def log(_: object, row: SearchRow) -> str:
        logged.append(row.query)
        return "id"

    monkeypatch.setattr("query.service.query_log_writer.QueryLog.searched", log)

    async def search(service: httpx.Client) -> CallToolResult:
        async with connected(service) as client:
            return await client.call_tool("search", QUERY)

    with serving(ServiceOptions(calibrated_by_words, device="cpu", log=True)) as service:
        assert not asyncio.run(search(service)).is_error
        assert not logged
        assert service.post("/api/search", json=QUERY).status_code == 200
    assert logged == [QUERY["query"]]
