"""What every face of the runtime shares: finding a model, loading it, answering, pulling, making models."""
