"""The query service: JSON, an Elasticsearch-shaped search and a web page, over one ``Searcher`` a collection."""
