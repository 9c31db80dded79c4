"""The default encoder: its weights, its graph, its folder."""
