"""Failures as answers."""

from encoders.errors import BadInput
from indexer.collection.collection import NoCollection
from query.service.refusals import refusal


def test_only_a_missing_collection_is_not_found_whatever_a_query_says() -> None:
    sentence = "the encoder knows no word of the query 'there is no collection'"
    assert refusal(BadInput(sentence)).status == 400
    assert refusal(NoCollection("there is no collection 'c'")).status == 404
