"""What several APIs share: request fields with their meaning, and parts of replies.

Has no endpoints and knows no API. Begin with `messages` and `sampling`.
"""
