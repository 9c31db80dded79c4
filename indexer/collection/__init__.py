"""Settings; collections by name, their stores and generations."""
