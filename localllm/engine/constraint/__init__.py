"""What a sequence's next tokens may be: grammars, their masks, and who computes these while the backend decodes."""
