"""HMDE's lower encoder: as it is, trained, with adapters, or a Longformer."""
