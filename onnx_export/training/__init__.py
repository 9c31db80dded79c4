"""Parts of every training in torch: device, seeds, checkpoints, progress, curve."""
