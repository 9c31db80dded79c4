"""The tools for agents, over HTTP and pipes."""
