"""The part of the service that answers calls in Elasticsearch's language."""
