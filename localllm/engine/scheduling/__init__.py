"""Which sequence gets which tokens in the next step, and where a waiting one goes. Pure decisions.

Computes nothing, has no clock and no thread: costs come from models (`cost`, `row_cost`) that `stepping` teaches,
effects are operations that `cache/` carries out. Begin with `scheduler`; `admission` chooses the slot, `shares` the
shape of a step.
"""
