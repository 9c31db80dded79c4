"""The service as an application sees it that speaks Elasticsearch."""
