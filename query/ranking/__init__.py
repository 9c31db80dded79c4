"""From a query to its ranked hits."""
