"""Real servers for the tests, started here and stopped at the end."""
