"""Documents: what readers find, and that malformed ones do no harm."""
