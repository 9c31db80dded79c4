"""What every training with torch needs: checkpoints, a loss curve, a progress line, a device. No model's own things."""
