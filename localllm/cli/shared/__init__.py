"""What several commands share: model names, reports, the server that `run` uses."""
