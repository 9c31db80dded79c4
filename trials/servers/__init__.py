"""Real servers, each in its own folder: Elasticsearch, PostgreSQL, Redis, RabbitMQ, the service."""
