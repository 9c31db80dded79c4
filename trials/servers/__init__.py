"""Real servers, each in a folder of its own: Elasticsearch, PostgreSQL, Redis, RabbitMQ, the service."""
