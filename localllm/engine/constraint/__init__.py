"""What a sequence's next tokens may be: grammars, their masks, and who computes these while the backend decodes.

Compiles no grammar (`worker/grammars` does) and draws no token (`sampling/`). A sequence whose mask is late sits out
the step. Begin with `constraint`, the interface, then `follower`.
"""
