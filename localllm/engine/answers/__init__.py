"""From drawn tokens to an answer: text, stop strings, ends, failures."""
