"""What is set for single models: shown with where it comes from, and changed in `config.toml`."""
