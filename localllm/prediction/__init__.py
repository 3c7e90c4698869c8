"""Speed of models on this machine, predicted before they are loaded."""
