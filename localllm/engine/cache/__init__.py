"""What is in the KV cache and the tiers behind it."""
