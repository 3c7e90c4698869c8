"""Converts the arguments of calls, in every notation that models write, to JSON as they arrive, and back.

One module a notation. Schemas are used to convert values, never to reject them: that is the grammar's task. Each is
tested at every split of its input. Begin with `reading`, then `json_arguments`.
"""
