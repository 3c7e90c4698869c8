"""Reading and writing answers in a model's own format, and finding out what that is."""
