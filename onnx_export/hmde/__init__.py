"""Train HMDE and export its two graphs; only this part of HMDE needs torch."""
