"""From a request to the tokens of its prompt: rendering, tokenizing, what is restored from earlier answers.

Begin with `preparer`."""
