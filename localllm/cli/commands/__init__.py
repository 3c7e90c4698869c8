"""The body of each command, imported when the command runs."""
