"""What several APIs share of answers: running them, merging choices, log-probabilities, timings, remarks.

Knows no API's format. Begin with `generation`."""
