"""The client of Elasticsearch: addresses, connections, values, pages of hits."""
