"""From drawn tokens to an answer: text, stop strings, ends, failures.

Draws nothing and schedules nothing; knows no format of reasoning or calls (`chat/formats` reads these in the parent).
Begin with `answering`, then `text`.
"""
