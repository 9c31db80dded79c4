"""The service put together: its page, the ASGI application of all parts, and the server that runs it."""
