"""The query service: JSON, an Elasticsearch-shaped search and a web page, all over one ``Searcher`` a collection."""
