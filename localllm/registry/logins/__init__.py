"""The user's credentials for hubs and registries, read from where other tools store them."""
