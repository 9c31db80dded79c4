"""HMDE's lower encoder: frozen, trained, with adapters, or a Longformer."""
