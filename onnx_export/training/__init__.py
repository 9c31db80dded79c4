"""What every training in torch shares: device, seeds, checkpoints, progress, curve."""
