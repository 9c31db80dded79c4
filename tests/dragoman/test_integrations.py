"""The retrievers and embeddings of LangChain, Haystack and LlamaIndex; LangChain's by its own standard tests."""

import asyncio
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline
from haystack.core.errors import PipelineRuntimeError
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, RetrieversIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from dragoman import index
from dragoman.integrations import haystack, langchain, llama_index
from encoders.errors import BadInput

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # which Haystack imports


@pytest.fixture(scope="module", autouse=True)
def rivers(tmp_path_factory: pytest.TempPathFactory, default_opened_once: None) -> Iterator[None]:
    rows = [
        {"id": "elbe", "lang": "de", "title": "Hochwasser in Dresden", "text": "Die Elbe steigt.", "year": 2002},
        {"id": "po", "lang": "it", "title": "La piena del Po", "text": "Il fiume è uscito dagli argini.", "year": 1994},
        {"id": "bread", "lang": "en", "title": "Sourdough", "text": "Bake bread without yeast.", "year": 1994},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(tmp_path_factory.mktemp("home")))
        index(rows, "rivers")
        yield


class TestLangChainRetriever(RetrieversIntegrationTests):
    retriever_constructor = langchain.DragomanRetriever
    retriever_query_example = "river flood"

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"collection": "rivers"}


class TestLangChainEmbeddings(EmbeddingsIntegrationTests):
    embeddings_class = langchain.DragomanEmbeddings


class TestLangChainEmbeddingsOpened(EmbeddingsUnitTests):
    """LangChain's standard tests of embeddings that are only made."""

    embeddings_class = langchain.DragomanEmbeddings


def _by_langchain(filters: Any = None, **options: Any) -> list[tuple[str | None, dict[str, Any]]]:
    """By a copy with other fields, which was pickled, and with values of an asynchronous call."""
    copied = langchain.DragomanRetriever(collection="none").model_copy(update={"collection": "rivers", **options})
    found = asyncio.run(pickle.loads(pickle.dumps(copied)).ainvoke("river flood", k=2, filters=filters))
    return [(document.id, document.metadata) for document in found]


def _by_haystack(**options: Any) -> list[tuple[str, dict[str, Any]]]:
    """Through a pipeline that was written to a file and read again."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", haystack.DragomanRetriever("rivers", 2, **options))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    found = again.run({"retriever": {"query": "river flood"}})["retriever"]["documents"]
    return [(document.id, document.meta) for document in found]


def _by_llama_index(**options: Any) -> list[tuple[str, dict[str, Any]]]:
    found = llama_index.DragomanRetriever("rivers", 2, **options).retrieve("river flood")
    return [(node.node.node_id, node.node.metadata) for node in found]


@pytest.mark.parametrize("retrieve", [_by_langchain, _by_haystack, _by_llama_index])
def test_retrievers_find_documents_in_any_language_with_their_fields(
    retrieve: Callable[..., list[tuple[str, dict[str, Any]]]],
) -> None:
    found = dict(retrieve())
    assert found.keys() == {"elbe", "po"}
    assert (found["elbe"]["lang"], found["elbe"]["year"], found["elbe"]["also"]) == ("de", 2002, [])
    assert [name for name, _ in retrieve(filters={"year": 1994}, to=["it"])] == ["po"]
    with pytest.raises((BadInput, PipelineRuntimeError), match="has no documents in 'fi'"):
        retrieve(to=["fi"])


def test_a_retriever_that_is_made_opens_nothing_before_its_first_query(tmp_path: Path) -> None:
    retriever = langchain.DragomanRetriever(collection="none", home=str(tmp_path))
    with pytest.raises(BadInput, match="no collection"):
        retriever.invoke("flood")
