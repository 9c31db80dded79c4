"""Train HMDE and make its two graphs: the part that needs torch."""
