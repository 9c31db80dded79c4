"""The Elasticsearch store: raw unit vectors in ``dense_vector`` fields, beside their documents."""
