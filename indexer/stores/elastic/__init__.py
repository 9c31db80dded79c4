"""The Elasticsearch store: raw unit vectors in ``dense_vector`` fields, beside the documents they are of."""
