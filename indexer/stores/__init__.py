"""Vector stores: their interface, and stores in a file, in Elasticsearch and in a user's index."""
