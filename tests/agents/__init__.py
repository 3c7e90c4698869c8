"""Coding agents as their users run them, against a real server whose model says what a script has it say."""
