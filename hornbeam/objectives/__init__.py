"""What is to be learned: a loss, its gradients, and the way back to predictions."""
