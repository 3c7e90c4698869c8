"""Settings of single models: shown with their sources, and changed in `config.toml`."""
