"""From a request to the tokens of its prompt: rendering, tokenizing, what is restored from earlier answers.

Untrusted templates run in `template_child`, a process with limits. Computes nothing with the model. Begin with
`preparer`.
"""
