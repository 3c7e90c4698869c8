"""Which models are loaded, on which device, with how many layers and slots, and which must make room."""
