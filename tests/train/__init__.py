"""How the demo model is made; these tests need the extra `train`."""
